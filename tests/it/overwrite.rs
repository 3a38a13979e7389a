//! What may be written over, and what may not: a file that somebody may still want, another run's ledger.

use std::io::{self, Write};

use crate::process::{Place, Running};
use crate::server::Server;
use crate::users;

/// A run to `scored.csv` that has checked everything that can be checked before its input comes.
fn waiting<'a>(place: &'a Place, server: &'a Server) -> (Running<'a>, impl Write + use<>) {
    let (input, mut rows) = io::pipe().unwrap();
    let run = place.run(server, ["-", "-o", "scored.csv", "--format", "csv"]);
    let running = run.stdin_from(input).start();
    // More than a pipe holds, and no whole line: it is being read, and that is not enough.
    write!(rows, "name,email,ip,user_agent,{}", "x".repeat(100_000)).unwrap();
    (running, rows)
}

#[test]
fn what_was_finished_while_a_run_waited_for_its_input_is_not_replaced() {
    let csv = users::csv(5);
    // Neither where there was nothing, nor where there was an unfinished run that the waiting one would have gone on with.
    for unfinished in [false, true] {
        let (place, server) = (Place::with("users.csv", &csv), Server::good());
        if unfinished {
            place.score(&server, ["--max-calls", "2"]).exits(3);
        }
        let (running, mut rows) = waiting(&place, &server);
        place.score(&server, []).exits(0);
        writeln!(rows, "\nJane,j@example.com,::1,u,").unwrap();
        drop(rows);
        running.done().exits(2).says("`scored.csv` exists already");
        assert_eq!(server.calls(), 5);
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
        assert_eq!(place.names(), ["scored.csv", "users.csv"]);
    }
}
