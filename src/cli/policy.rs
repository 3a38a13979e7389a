//! The arguments that say how decisions are made: by the score, or by a level that the service gives.

use clap::Args;

use super::fields::FIELDS;
use super::sources::Sources;
use super::thresholds::ThresholdArgs;
use super::values::{self, DecideBy};
use crate::base::error::{Error, Result, quoted};
use crate::raw_json::Pointer;
use crate::verdict::{Decision, DecisionPolicy, Levels, Thresholds};

// A doc comment would be taken for the help of the command.
#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    #[command(flatten)]
    thresholds: ThresholdArgs,
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

impl PolicyChoice {
    /// The policy for answers, and the fields to capture: those of the columns, and the level if it is not among them.
    ///
    /// # Errors
    /// The place of the level is not a JSON pointer.
    pub(super) fn of_answers(
        self,
        mut captured: Vec<Pointer>,
    ) -> Result<(DecisionPolicy, Vec<Pointer>)> {
        let policy = match self {
            Self::Score(thresholds) => DecisionPolicy::Score(thresholds),
            Self::Level { place, levels } => {
                let field = capture(&place, &mut captured)?;
                DecisionPolicy::Level { levels, field }
            }
        };
        Ok((policy, captured))
    }
}

/// Adds the level at this place to the fields that are captured, unless it is there, and returns its index.
///
/// # Errors
/// The place is not a JSON pointer.
pub(super) fn capture(place: &str, captured: &mut Vec<Pointer>) -> Result<usize> {
    let pointer = Pointer::parse(place)
        .map_err(|wrong| Error::usage(format!("`--decide-by level`: {wrong}")))?;
    let there = captured.iter().position(|field| *field == pointer);
    Ok(there.unwrap_or_else(|| {
        captured.push(pointer);
        captured.len() - 1
    }))
}

impl PolicyArgs {
    /// How decisions are made; `place` is what a level's place looks like.
    ///
    /// # Errors
    /// The first threshold is above the second, a level is listed twice, or the options are for different ways.
    pub(super) fn choice(&self, sources: Sources<'_>, place: &str) -> Result<PolicyChoice> {
        let is_given = |option: &str| sources.is_given(&option.replace('-', "_"));
        match &self.decide_by {
            DecideBy::Score => {
                if let Some((list, _)) = LISTS.iter().find(|(list, _)| is_given(list)) {
                    return Err(Error::usage(format!(
                        "`--{list}` has no effect when decisions are made by the score"
                    ))
                    .hint(format!(
                        "add `--decide-by level={place}`, with the place of the level"
                    )));
                }
                self.thresholds.thresholds().map(PolicyChoice::Score)
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
