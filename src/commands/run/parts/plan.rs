//! What is to be done with each input, once the run holds its ledger.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::super::files::{InputFile, OutputDirectory, rejects_of};
use super::super::super::input_check::InputCheck;
use super::super::super::open_input::{InputFacts, OpenInput};
use super::super::bodies::bodies;
use super::super::file::{OpenFile, real_path};
use super::super::ledger::PreparedLedger;
use super::super::output_files::RowTargets;
use super::check::{CheckedPart, CheckedParts, Found, UsersFile};
use crate::base::error::{Error, Result, shown};
use crate::layout::Format;
use crate::ledger::OutputState;
use crate::output::{Replace, Target};
use crate::service::Plan;

/// Several inputs, and what is to be done with each.
pub(in crate::commands::run) struct PlannedParts {
    pub(super) parts: Vec<PlannedPart>,
    pub(in crate::commands::run) directory: PathBuf,
    pub(super) fail_fast: bool,
}

/// An input, and what is to be done with it.
pub(super) struct PlannedPart {
    pub(super) input: PathBuf,
    pub(super) output: PathBuf,
    pub(super) plan: PartPlan,
}

/// What is to be done with an input.
pub(super) enum PartPlan {
    /// Its rows run.
    Run(Box<PartToRun>),
    /// An earlier run has finished it.
    Skip {
        /// The rows without a verdict, if there are any.
        rejects: Option<PathBuf>,
    },
    /// It cannot be used.
    Unusable(Error),
}

/// An input whose rows are to run.
pub(in crate::commands::run) struct PartToRun {
    /// What was found out about it before the first call.
    pub(in crate::commands::run) facts: InputFacts,
    pub(in crate::commands::run) format: Format,
    input: InputFile,
    output: Target,
    rejects: PathBuf,
    replace: Replace,
    /// Rows of an earlier run are written again first.
    uses_earlier_answers: bool,
    plan: Plan,
}

impl CheckedParts {
    /// Decides what is to be done with each input.
    ///
    /// # Errors
    /// Exit code 2: the ledger cannot be read; with `--fail-fast` also an input that cannot
    /// be used.
    pub(in crate::commands::run) fn plan(
        self,
        ledger: &mut PreparedLedger,
    ) -> Result<PlannedParts> {
        let Self {
            parts,
            directory,
            overwrite,
            fail_fast,
            plan,
        } = self;
        let mut planner = Planner {
            ledger,
            directory: &directory,
            overwrite,
            plan,
        };
        let mut all = Vec::with_capacity(parts.len());
        for part in parts {
            let (input, output) = (part.input.path.clone(), part.output.clone());
            let plan = match planner.plan(part) {
                Err(error) if fail_fast => return Err(error),
                plan => plan.unwrap_or_else(PartPlan::Unusable),
            };
            all.push(PlannedPart {
                input,
                output,
                plan,
            });
        }
        Ok(PlannedParts {
            parts: all,
            directory: directory.path,
            fail_fast,
        })
    }
}

/// What the decisions depend on besides the input.
struct Planner<'a> {
    ledger: &'a mut PreparedLedger,
    directory: &'a OutputDirectory,
    overwrite: bool,
    plan: Plan,
}

impl Planner<'_> {
    fn plan(&mut self, part: CheckedPart) -> Result<PartPlan> {
        let CheckedPart {
            input,
            output,
            found,
        } = part;
        let real_input = real_path(&input.settings.file.input);
        let state = self.ledger.output_state(&output, real_input.as_deref())?;
        let users = match found {
            Found::Unusable(error) => return Err(error),
            Found::HasOutput => return self.skip(&input, &output, state),
            Found::Users(users) => users,
        };
        let replace = match (self.overwrite, output.symlink_metadata().is_ok()) {
            (true, _) => Replace::Whole,
            (false, false) => self.ledger.replaceable_partials(),
            // The rows without a verdict are sent again, or the run was killed before the rejects had their name.
            (false, true) if state == OutputState::AsLeft => Replace::Whole,
            (false, true) => return self.skip(&input, &output, state),
        };
        let UsersFile {
            facts,
            format,
            rejects,
            ..
        } = *users;
        if !self.overwrite {
            self.directory.refuse_left_rejects(&output, &rejects)?;
        }
        Ok(PartPlan::Run(Box::new(PartToRun {
            output: Target::new(&output, |_| replace)?,
            facts,
            format,
            input,
            rejects,
            replace,
            uses_earlier_answers: self.ledger.uses_earlier_answers(),
            plan: self.plan,
        })))
    }

    /// Skips a finished output, unless its input is another one than the one that it was made of.
    fn skip(&self, input: &InputFile, output: &Path, state: OutputState) -> Result<PartPlan> {
        let is_of_other_input = state == OutputState::OfOtherInput;
        self.directory
            .refuse_outdated(input, output, is_of_other_input)?;
        Ok(PartPlan::Skip {
            rejects: rejects_of(output),
        })
    }
}

impl PlannedParts {
    /// Whether there is anything to do.
    pub(in crate::commands::run) fn any_to_run(&self) -> bool {
        self.to_run().next().is_some()
    }

    /// The inputs whose rows are to run.
    pub(in crate::commands::run) fn to_run(&self) -> impl Iterator<Item = &PartToRun> {
        self.parts.iter().filter_map(|part| match &part.plan {
            PartPlan::Run(part) => Some(&**part),
            _ => None,
        })
    }

    /// The size in bytes of the inputs whose rows are to run, where it is known.
    pub(in crate::commands::run) fn size(&self) -> Option<u64> {
        self.to_run().map(|part| part.facts.size).sum()
    }

    /// The names of all inputs, in their order.
    pub(in crate::commands::run) fn names(&self) -> Vec<Arc<str>> {
        let inputs = self.parts.iter();
        inputs.map(|part| shown(&part.input).into()).collect()
    }

    /// Why inputs cannot be used.
    pub(in crate::commands::run) fn unusable(&self) -> impl Iterator<Item = &Error> {
        self.parts.iter().filter_map(|part| match &part.plan {
            PartPlan::Unusable(error) => Some(error),
            _ => None,
        })
    }

    /// How many inputs were finished by an earlier run.
    pub(in crate::commands::run) fn skipped(&self) -> u64 {
        let skipped = self.parts.iter();
        let skipped = skipped.filter(|part| matches!(part.plan, PartPlan::Skip { .. }));
        skipped.count() as u64
    }
}

impl PartToRun {
    /// Opens the input again, and its files, when its turn has come.
    ///
    /// # Errors
    /// Exit code 2: it cannot be used, or its output cannot be made. Exit code 3: the disk is full.
    pub(super) fn open(self) -> Result<OpenFile> {
        let input = OpenInput::open(self.input.settings, bodies(self.plan), false)?;
        let targets = RowTargets {
            output: Some(self.output.again(self.replace)?),
            rejects: Some(Target::new(&self.rejects, |_| self.replace)?),
            changes: None,
        };
        let size = input.facts.size_of_rows();
        let (sink, sides) = targets.open(input.mode, self.uses_earlier_answers, size)?;
        Ok(OpenFile {
            real_input: real_path(&input.facts.source),
            input: input.facts,
            output: targets.output,
            reader: input.reader,
            // All inputs were checked together, before the first call.
            check: InputCheck::default(),
            layout: input.layout,
            sink,
            sides,
        })
    }
}
