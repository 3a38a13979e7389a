//! The options of `run` as options of another command, so that it can stand in place of `run`.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};

use super::run::RunArgs;

/// All options of `run` that the command does not have itself, hidden in its help. Their values are read as those of a
/// [`RunArgs`].
#[derive(Debug)]
pub(super) struct RunOptions;

impl Args for RunOptions {
    fn augment_args(command: Command) -> Command {
        let run = RunArgs::augment_args(Command::new("run"));
        let is_new = |arg: &&Arg| {
            command
                .get_arguments()
                .all(|own| own.get_id() != arg.get_id())
        };
        let new: Vec<_> = run.get_arguments().filter(is_new).cloned().collect();
        command.args(new.into_iter().map(|arg| arg.hide(true)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RunOptions {
    fn from_arg_matches(_: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self)
    }

    fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), clap::Error> {
        Ok(())
    }
}
