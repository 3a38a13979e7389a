//! The whole program: parse the arguments, run the command, report an error, give the exit code.

use std::process::ExitCode;

use crate::base::error::Exit;
use crate::base::say::{flush, say};
use crate::cli::{self, Command, Refusal};
use crate::commands;

/// Runs the program on the process's own arguments and environment.
#[must_use]
pub fn main() -> ExitCode {
    // A variable's key is in memory from the start, and people's data later: neither may end in a core file or in a crash
    // collector. It also keeps other programs of the same user from reading them out of this process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    // The allocator takes its memory from one large range. A system that makes pages of 2 MiB of such unasked would give
    // a run 38 MiB where 18 do. One that cannot be told otherwise gives them: no reason to stop.
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
    let done = match cli::parse(std::env::args_os()) {
        Ok((command, variables)) => match command {
            Command::Run(config) => commands::run::execute(*config),
            Command::Ledger(config) => commands::ledger::execute(config),
            Command::Sandbox(settings) => commands::sandbox::execute(&settings),
        }
        .map_err(|error| variables.explain(error)),
        Err(Refusal::Settings(error)) => Err(error),
        Err(Refusal::Arguments(error)) => {
            if error.use_stderr() {
                say(error.render().to_string().trim_end());
            } else {
                // Help or version. Nobody may be there to read it.
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
