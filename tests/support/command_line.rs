//! What a person types: a run with its settings in variables, so that each argument is free for the test.

use std::ffi::OsString;

use super::process::{Arguments, Done, KEY, Place, Program};
use super::server::Server;
use super::users;

/// `users.csv` and a good server whose address is in a variable, so that every argument is free for the test.
pub(crate) struct CommandLine {
    pub(crate) place: Place,
    pub(crate) server: Server,
}

impl CommandLine {
    pub(crate) fn new() -> Self {
        Self {
            place: Place::with("users.csv", users::csv(3)),
            server: Server::good(),
        }
    }

    /// `users.csv` to `scored.csv` with these arguments.
    pub(crate) fn typed<K>(&self, arguments: impl Arguments<K>) -> Program<'_> {
        let arguments = arguments.list();
        let names_rate = |word: &OsString| word.to_string_lossy().starts_with("--rate");
        let rate = if arguments.iter().any(names_rate) {
            ""
        } else {
            "--rate unlimited"
        };
        let program = self
            .place
            .rescore("run users.csv -o scored.csv")
            .env("RESCORE_BASE_URL", self.server.url())
            .env("RESCORE_SERVICE_ID", "test")
            .env("RESCORE_API_KEY", KEY);
        program.args(rate).args(arguments)
    }

    /// Ends with exit code 2; nothing is sent, printed or left.
    #[track_caller]
    pub(crate) fn refuses(&self, program: Program<'_>) -> Done {
        let done = program.done();
        done.exits(2).says("error:");
        done.check(done.stdout.is_empty(), "nothing on standard output");
        done.check(self.server.connections() == 0, "nothing is sent");
        done.check(self.place.names() == ["users.csv"], "no file is left");
        done
    }
}
