//! The arguments that say which columns are which fields, how decisions are made, and which columns are added.

use std::collections::HashSet;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::files::FILES;
use crate::base::error::{Error, Result};
use crate::base::numbers::Decimal;
use crate::base::text::quoted;
use crate::config::values::{self, DecideBy, one_of};
use crate::fields::{Assignments, Field, FieldRules, Invalid, PhoneRegion, Template};
use crate::layout::AddedColumns;
use crate::raw_json::Pointer;
use crate::verdict::{Decision, DecisionPolicy, Levels, Thresholds};

/// Their heading in the help.
pub(super) const FIELDS: &str = "Fields and decisions";

/// The words of `--invalid`.
const INVALID: &[(&str, Invalid)] = &[
    ("reject", Invalid::Reject),
    ("drop", Invalid::Drop),
    ("send", Invalid::Send),
];

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct FieldArgs {
    /// Take a field (name, email, phone, ip, user_agent) from this column (repeatable)
    ///
    /// Several columns make one field as in `name={first} {last}`. In JSONL, a JSON pointer reaches nested members, as
    /// in `ip=/device/ip`.
    #[arg(long, value_name = "FIELD=COLUMN", value_parser = values::map, help_heading = FIELDS)]
    map: Vec<(Field, Template<String>)>,
    /// Send the same value for a field in every row (repeatable)
    #[arg(long, value_name = "FIELD=VALUE", value_parser = values::set, help_heading = FIELDS)]
    set: Vec<(Field, String)>,
    /// Send this value for a field in rows where its column is empty (repeatable)
    #[arg(long, value_name = "FIELD=VALUE", value_parser = values::set, help_heading = FIELDS)]
    default: Vec<(Field, String)>,
    /// Read a cell with exactly this text, such as `NULL` or `n/a`, as empty (repeatable)
    #[arg(long, value_name = "TEXT", value_parser = values::null, help_heading = FIELDS)]
    null: Vec<String>,
    /// Read national phone numbers as dialled in this region, such as `DE`
    ///
    /// A region is a country's code of two letters (ISO 3166), or `+` for international numbers that lack their plus. A number
    /// that is not valid there is not sent. International numbers do not depend on it.
    #[arg(long, value_name = "CODE", value_parser = values::phone_region, help_heading = FIELDS)]
    phone_region: Option<PhoneRegion>,
    /// Take the region of national phone numbers from this column of each row; where it is empty, from `--phone-region`
    #[arg(long, value_name = "COLUMN", value_parser = NonEmptyStringValueParser::new(), help_heading = FIELDS)]
    phone_region_column: Option<String>,
    /// What to do with an invalid phone number or email address: reject the row, or drop the value if the row has the other; or
    /// send an email address as it is
    #[arg(long, value_name = "ACTION", value_parser = one_of(INVALID), default_value = "reject", help_heading = FIELDS)]
    invalid: Invalid,
}

impl FieldArgs {
    /// Where each field comes from.
    ///
    /// # Errors
    /// A field that is given twice.
    pub(super) fn assignments(&self) -> Result<Assignments> {
        let mut assignments = Assignments::default();
        for (field, template) in self.map.clone() {
            assignments.map(field, template)?;
        }
        for (field, value) in self.set.clone() {
            assignments.set(field, value)?;
        }
        assignments.set_region_column(self.phone_region_column.clone());
        Ok(assignments)
    }

    /// What values must be like, and what stands for one that is empty.
    ///
    /// # Errors
    /// A default has no effect, is given twice, or would make every row invalid.
    pub(super) fn rules(&self) -> Result<FieldRules> {
        let mut rules = FieldRules {
            region: self.phone_region,
            invalid: self.invalid,
            nulls: self.null.clone(),
            ..FieldRules::default()
        };
        for (field, value) in &self.default {
            if self.set.iter().any(|(set, _)| set == field) {
                return Err(Error::usage(format!(
                    "`{field}` is given in both `--set` and `--default`"
                ))
                .hint("`--set` sends its value in every row: leave out one of them"));
            }
            rules.set_default(*field, value)?;
        }
        Ok(rules)
    }
}

#[derive(Debug, Args)]
pub(super) struct ColumnArgs {
    /// Append another field of the answer, such as `risk_level=/summary/risk_level` (repeatable)
    ///
    /// `NAME=`, with an empty pointer, appends the whole answer on one line.
    #[arg(long, value_name = "NAME=POINTER", value_parser = values::column, help_heading = FIELDS)]
    column: Vec<(String, Pointer)>,
    /// Put this before the names of all new columns, as in `rescore_decision`
    #[arg(
        long, value_name = "TEXT", default_value = "", hide_default_value = true, value_parser = values::prefix,
        help_heading = FILES
    )]
    prefix: String,
    /// Append a column with the reason word of each row without a verdict, such as `no_answer`
    ///
    /// It is empty for all other rows. The words are those of the rejects.
    #[arg(long, value_name = "NAME", value_parser = values::new_column_name, help_heading = FILES)]
    reason_column: Option<String>,
}

impl ColumnArgs {
    /// The columns that are added, and where those of `--column` come from.
    ///
    /// # Errors
    /// Two columns would have the same name.
    pub(super) fn added(&self) -> Result<(AddedColumns, Vec<Pointer>)> {
        let captured = self.column.iter().map(|(name, _)| name.as_str());
        let columns = AddedColumns::new(&self.prefix, captured, self.reason_column.as_deref());
        let mut names = HashSet::new();
        if let Some(name) = columns
            .iter()
            .find(|name| !names.insert(name.to_lowercase()))
        {
            let name = quoted(name);
            return Err(
                Error::usage(format!("two new columns would have the name {name}")).hint(
                    "`--column` and `--reason-column` name columns besides those of the verdict",
                ),
            );
        }
        let pointers = self.column.iter();
        let pointers = pointers.map(|(_, pointer)| pointer.clone()).collect();
        Ok((columns, pointers))
    }
}

#[derive(Debug, Args)]
pub(super) struct ThresholdArgs {
    /// Approve up to this score
    #[arg(long, value_name = "SCORE", default_value_t = Thresholds::default().approve_max().clone(), value_parser = values::threshold, help_heading = FIELDS)]
    approve_max: Decimal,
    /// Review up to this score, block above it
    #[arg(long, value_name = "SCORE", default_value_t = Thresholds::default().review_max().clone(), value_parser = values::threshold, help_heading = FIELDS)]
    review_max: Decimal,
}

impl ThresholdArgs {
    /// The thresholds.
    ///
    /// # Errors
    /// The first is above the second.
    pub(super) fn thresholds(&self) -> Result<Thresholds> {
        let (approve, review) = (&self.approve_max, &self.review_max);
        Thresholds::new(approve.clone(), review.clone()).ok_or_else(|| {
            Error::usage(format!(
                "`--approve-max {approve}` is above `--review-max {review}`"
            ))
        })
    }
}

#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    #[command(flatten)]
    thresholds: ThresholdArgs,
    /// Decide by the score, or by a level: `level=/summary/risk_level`, or of a scored file `level=COLUMN`
    ///
    /// A level is a field of the answer. Its values are listed with `--approve-levels`, `--review-levels` and
    /// `--block-levels`; a row whose level is in none of them gets no decision.
    #[arg(
        long, value_name = "score|level=PLACE", default_value = "score", value_parser = values::decide_by,
        help_heading = FIELDS
    )]
    decide_by: DecideBy,
    /// Approve these levels, such as `0,low`; the case does not matter
    #[arg(long, value_name = "LEVELS", value_delimiter = ',', allow_hyphen_values = true, help_heading = FIELDS)]
    approve_levels: Vec<String>,
    /// Review these levels
    #[arg(long, value_name = "LEVELS", value_delimiter = ',', allow_hyphen_values = true, help_heading = FIELDS)]
    review_levels: Vec<String>,
    /// Block these levels
    #[arg(long, value_name = "LEVELS", value_delimiter = ',', allow_hyphen_values = true, help_heading = FIELDS)]
    block_levels: Vec<String>,
}

/// Adds the level that this pointer leads to to the captured fields, unless it is among them, and returns its index.
///
/// # Errors
/// It is not a JSON pointer.
pub(super) fn capture(level: &str, captured: &mut Vec<Pointer>) -> Result<usize> {
    let pointer = Pointer::parse(level)
        .map_err(|wrong| Error::usage(format!("`--decide-by level`: {wrong}")))?;
    let there = captured.iter().position(|field| *field == pointer);
    Ok(there.unwrap_or_else(|| {
        captured.push(pointer);
        captured.len() - 1
    }))
}

impl PolicyArgs {
    /// The policy for answers. The level is added to the fields that are captured, unless it is among them.
    ///
    /// # Errors
    /// As for [`Self::policy`], or the level is not a JSON pointer.
    pub(super) fn of_answers(&self, captured: &mut Vec<Pointer>) -> Result<DecisionPolicy> {
        let mut policy = self.policy("/summary/risk_level")?;
        if let (DecisionPolicy::Level { field, .. }, Some(level)) = (&mut policy, self.level()) {
            *field = capture(level, captured)?;
        }
        Ok(policy)
    }

    /// The level that decides, if one does: a JSON pointer, or the name of a column.
    pub(super) fn level(&self) -> Option<&str> {
        match &self.decide_by {
            DecideBy::Score => None,
            DecideBy::Level(level) => Some(level),
        }
    }

    /// How decisions are made; `example` is a level, for a hint.
    ///
    /// # Errors
    /// The first threshold is above the second, a level is listed twice, or levels are given for scores.
    pub(super) fn policy(&self, example: &str) -> Result<DecisionPolicy> {
        let levels = self.levels()?;
        match (&self.decide_by, levels.is_empty()) {
            (DecideBy::Score, true) => self.thresholds.thresholds().map(DecisionPolicy::Score),
            (DecideBy::Level(_), false) => Ok(DecisionPolicy::Level { levels, field: 0 }),
            (DecideBy::Score, false) => Err(Error::usage(
                "levels have no effect when decisions are made by the score",
            )
            .hint(format!(
                "add `--decide-by level={example}`, with the place of the level"
            ))),
            (DecideBy::Level(_), true) => Err(Error::usage(
                "`--decide-by level` needs the levels of each decision",
            )
            .hint("add `--approve-levels`, `--review-levels` and `--block-levels`")),
        }
    }

    /// The levels with their decisions.
    ///
    /// # Errors
    /// One is empty, or is listed twice.
    fn levels(&self) -> Result<Levels> {
        let mut levels = Levels::default();
        for (list, decision, listed) in [
            ("--approve-levels", Decision::Approve, &self.approve_levels),
            ("--review-levels", Decision::Review, &self.review_levels),
            ("--block-levels", Decision::Block, &self.block_levels),
        ] {
            for level in listed {
                let what = if level.trim().is_empty() {
                    "an empty level".to_owned()
                } else if levels.add(level, decision).is_err() {
                    let level = quoted(level.trim());
                    format!("the level {level}, which is listed before")
                } else {
                    continue;
                };
                return Err(Error::usage(format!("`{list}` has {what}")));
            }
        }
        Ok(levels)
    }
}
