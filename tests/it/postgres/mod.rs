//! A ledger on a PostgreSQL server: made once, used by many, and looked after by hand.

mod claims;
mod crash;
mod faults;
mod init;
mod outage;
mod pace;
mod runs;
mod upkeep;

use crate::support::postgres::Database;
use crate::support::process::{Place, Program};
use crate::support::server::Server;

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
