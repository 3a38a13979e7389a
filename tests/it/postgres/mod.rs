//! A ledger on a PostgreSQL server: made once, used by many, and looked after by hand.

mod claims;
mod crash;
mod faults;
mod init;
mod outage;
mod pace;
mod runs;
mod upkeep;

use crate::support::postgres::{Cluster, Database};
use crate::support::process::{Place, Program};
use crate::support::server::Server;
use crate::support::users;

/// Users in `users.csv`, a service, and a ledger in a database of its own.
struct Setup<'a> {
    database: Database<'a>,
    url: String,
    csv: String,
    place: Place,
    server: Server,
}

impl<'a> Setup<'a> {
    /// So many users.
    fn new(cluster: &'a Cluster, users: usize, server: Server) -> Self {
        Self::over(cluster.database(), users, server)
    }

    /// As [`Self::new`], over this database.
    fn over(database: Database<'a>, users: usize, server: Server) -> Self {
        let csv = users::csv(users);
        let place = Place::with("users.csv", &csv);
        let url = init(&place, &database);
        Self {
            database,
            url,
            csv,
            place,
            server,
        }
    }

    /// A run over the users to this output.
    fn run(&self, output: &str) -> Program<'_> {
        run(&self.place, &self.server, &self.url, output)
    }

    /// Whether each row of an output has its verdict.
    #[track_caller]
    fn check(&self, output: &str) {
        assert_eq!(
            self.place.text(output),
            users::scored(&self.csv),
            "{output}"
        );
    }

    /// As [`Self::check`]; each user was paid for once, and nothing is left behind.
    #[track_caller]
    fn check_all(&self, output: &str) {
        self.check(output);
        let users = self.csv.lines().count() - 1;
        assert_eq!(
            (self.server.calls(), self.database.count("answers")),
            (users, users)
        );
        assert_eq!(self.place.names(), [output, "secret", "users.csv"]);
    }
}

/// Makes a ledger in a database, with its secret in `secret`. Returns its address.
fn init(place: &Place, database: &Database<'_>) -> String {
    let url = database.url();
    place
        .rescore(["ledger", "init", &url, "--ledger-secret-file", "secret"])
        .done()
        .exits(0);
    url
}

/// The leases of all workers end. They are not so old that their claims are forgotten.
fn end_leases(database: &Database<'_>) {
    database.sql("UPDATE rescore.workers SET alive_until = alive_until - 600000");
}

/// A run over `users.csv` with a ledger at this address.
fn run<'a>(place: &'a Place, server: &'a Server, url: &str, output: &str) -> Program<'a> {
    let args = ["users.csv", "-o", output, "--ledger", url, "-c", "8"];
    let secret = "--ledger-secret-file secret";
    place.run(server, args).args(secret)
}
