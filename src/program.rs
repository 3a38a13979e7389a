//! The whole program: parse the arguments, run the command, report an error, give the exit code.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::base::error::{Exit, Result};
use crate::base::stderr::{flush, say};
use crate::cli::{self, Command, ParseFailure};
use crate::commands;

/// Runs the program on the process's own arguments and environment.
#[must_use]
pub fn main() -> ExitCode {
    // The key may be in memory from the start, and personal data is later: neither may end up in a core file or a crash
    // collector. This also keeps other programs of the same user from reading them from this process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    // The allocator takes its memory from one large range. Where the system turns such ranges into pages of 2 MiB, a run
    // takes 38 MiB instead of 18. If this cannot be switched off, the run works all the same.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    std::panic::set_hook(Box::new(|panic| {
        // Where, not what: a panic's message may hold a row.
        let place = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        say(&format!(
            "error: internal error at {place}\n\nhint: this is a bug in rescore"
        ));
    }));
    let code = std::panic::catch_unwind(execute).unwrap_or(Exit::Internal.code());
    flush();
    ExitCode::from(code)
}

fn execute() -> u8 {
    for warning in cli::variable_warnings() {
        say(&warning);
    }
    let done = match cli::parse(std::env::args_os(), &settings_text) {
        Ok((command, origins)) => carry_out(command).map_err(|error| origins.explain(error)),
        Err(ParseFailure::Settings(error)) => Err(error),
        Err(ParseFailure::Arguments(error)) => {
            if error.use_stderr() {
                say(error.render().to_string().trim_end());
            } else {
                // Help or version; standard output may be closed.
                let _ = error.print();
            }
            return u8::try_from(error.exit_code()).unwrap_or(Exit::Usage.code());
        }
    };
    let exit = done.unwrap_or_else(|error| {
        say(&error.report());
        error.exit()
    });
    exit.code()
}

fn carry_out(command: Command) -> Result<Exit> {
    match command {
        Command::Run(config) => commands::run::execute(*config),
        Command::Check(config) => commands::check::execute(*config),
        Command::Decide(config) => commands::decide::execute(*config),
        Command::Report(config) => commands::report::execute(*config),
        Command::Ledger(config) => commands::ledger::execute(config),
        Command::Sandbox(settings) => commands::sandbox::execute(&settings),
        Command::Print(text) => commands::print::execute(&text),
        Command::Man(config) => commands::man::execute(&config),
    }
}

/// The text of a settings file, if it exists.
fn settings_text(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
