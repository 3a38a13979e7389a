//! The arguments that say how decisions are made: by the score, or by a level that the service gives.

use clap::Args;

use super::fields::FIELDS;
use super::sources::Sources;
use super::values::{self, DecideBy};
use crate::base::decimal::Decimal;
use crate::base::error::{Error, Result, quoted};
use crate::verdict::{Decision, Levels, Thresholds};

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    /// Approve up to this score
    #[arg(
        long, value_name = "SCORE", default_value = "2", allow_negative_numbers = true,
        value_parser = values::threshold, help_heading = FIELDS
    )]
    approve_max: Decimal,
    /// Review up to this score, block above it
    #[arg(
        long, value_name = "SCORE", default_value = "5", allow_negative_numbers = true,
        value_parser = values::threshold, help_heading = FIELDS
    )]
    review_max: Decimal,
    /// Decide by the score, or by a level such as `level=/summary/risk_level`
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

/// How decisions are made, as the user says it.
#[derive(Debug)]
pub(super) enum PolicyChoice {
    /// By the score.
    Score(Thresholds),
    /// By the level at a place: a field of the answer, or a column.
    Level { place: String, levels: Levels },
}

impl PolicyArgs {
    /// How decisions are made.
    ///
    /// # Errors
    /// The first threshold is above the second, a level is listed twice, or the options are for different ways.
    pub(super) fn choice(&self, sources: Sources<'_>) -> Result<PolicyChoice> {
        let is_given = |option: &str| sources.is_given(&option.replace('-', "_"));
        match &self.decide_by {
            DecideBy::Score => {
                if let Some((list, _)) = LISTS.iter().find(|(list, _)| is_given(list)) {
                    return Err(Error::usage(format!(
                        "`--{list}` has no effect when decisions are made by the score"
                    ))
                    .hint(
                        "add `--decide-by level=/summary/risk_level`, with the place of the level",
                    ));
                }
                self.thresholds().map(PolicyChoice::Score)
            }
            DecideBy::Level(place) => {
                let mut thresholds = ["approve-max", "review-max"].into_iter();
                if let Some(threshold) = thresholds.find(|threshold| is_given(threshold)) {
                    return Err(Error::usage(format!(
                        "`--{threshold}` has no effect with `--decide-by level`"
                    ))
                    .hint("leave one of them out"));
                }
                let (place, levels) = (place.clone(), self.levels()?);
                Ok(PolicyChoice::Level { place, levels })
            }
        }
    }

    fn thresholds(&self) -> Result<Thresholds> {
        let Self {
            approve_max,
            review_max,
            ..
        } = self;
        Thresholds::new(approve_max.clone(), review_max.clone()).ok_or_else(|| {
            Error::usage(format!(
                "`--approve-max {approve_max}` is above `--review-max {review_max}`"
            ))
        })
    }

    fn levels(&self) -> Result<Levels> {
        let mut levels = Levels::default();
        let lists = [
            &self.approve_levels,
            &self.review_levels,
            &self.block_levels,
        ];
        for ((list, decision), listed) in LISTS.into_iter().zip(lists) {
            for level in listed {
                if level.trim().is_empty() {
                    return Err(Error::usage(format!("`--{list}` has an empty level")));
                }
                if let Err(there) = levels.add(level, decision) {
                    let level = quoted(level.trim());
                    let there = LISTS.iter().find(|(_, decision)| *decision == there);
                    let there = there.map_or("", |(there, _)| there);
                    return Err(Error::usage(if there == list {
                        format!("`--{list}` has the level {level} twice")
                    } else {
                        format!("the level {level} is in both `--{there}` and `--{list}`")
                    }));
                }
            }
        }
        if levels.is_empty() {
            return Err(
                Error::usage("`--decide-by level` needs the levels of each decision")
                    .hint("add `--approve-levels`, `--review-levels` and `--block-levels`"),
            );
        }
        Ok(levels)
    }
}

/// The lists of levels and their decisions.
const LISTS: [(&str, Decision); 3] = [
    ("approve-levels", Decision::Approve),
    ("review-levels", Decision::Review),
    ("block-levels", Decision::Block),
];
