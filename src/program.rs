//! The whole program: parse the arguments, run the command, report an error, give the exit code.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use crate::base::error::{Error, Exit, Result};
use crate::base::private_file::read_small;
use crate::base::stderr::flush;
use crate::cli::{self, Command, ParseFailure};
use crate::commands;
use crate::observe::{Style, report_exit, speak_json, tell_error, tell_usage};

/// Runs the program on the process's own arguments and environment.
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
        let error = Error::internal(format!("internal error at {place}"));
        tell_error(&error.hint("this is a bug in rescore"));
    }));
    let code = std::panic::catch_unwind(execute).unwrap_or(Exit::Internal.code());
    report_exit(code);
    flush();
    ExitCode::from(code)
}

fn execute() -> u8 {
    let arguments: Vec<_> = std::env::args_os().collect();
    // Before the first message: a program that reads them wants objects from the first line on.
    if cli::asks_for_json(&arguments) {
        speak_json();
    }
    let exit = match cli::parse(&arguments, &settings_text) {
        Ok((command, origins)) => carry_out(command).unwrap_or_else(|error| {
            let error = origins.explain(error);
            tell_error(&error);
            error.exit()
        }),
        Err(ParseFailure::Settings(error)) => {
            tell_error(&error);
            error.exit()
        }
        Err(ParseFailure::Arguments(error)) if error.use_stderr() => {
            tell_usage(&error.render().to_string())
        }
        Err(ParseFailure::Arguments(help)) => {
            // Help or version; standard output may be closed.
            let _ = help.print();
            Exit::Complete
        }
    };
    exit.code()
}

fn carry_out(command: Command) -> Result<Exit> {
    match command {
        Command::Run(config) => {
            // A settings file may ask for it as well.
            if config.watch.style == Style::Json {
                speak_json();
            }
            commands::run::execute(*config)
        }
        Command::Check(config) => commands::check::execute(&config),
        Command::Decide(config) => commands::decide::execute(*config),
        Command::Report(config) => commands::report::execute(&config),
        Command::Ledger(config) => commands::ledger::execute(config),
        Command::Status(config) => commands::status::execute(&config),
        Command::Sandbox(settings) => commands::sandbox::execute(&settings),
        Command::Print(text) => commands::text::print(&text),
        Command::Man(directory, pages) => commands::text::write_pages(&directory, *pages),
    }
}

/// The text of a settings file, if it exists.
fn settings_text(path: &Path) -> io::Result<Option<String>> {
    match read_small(path) {
        Ok(text) if matches!(*text, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) => {
            let what = "it is UTF-16, as PowerShell writes it, and must be UTF-8";
            Err(io::Error::other(what))
        }
        Ok(text) => String::from_utf8(text).map(Some).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
