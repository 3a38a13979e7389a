//! A run that stands still for longer than its lease, as on a laptop that sleeps.

use std::thread;
use std::time::Duration;

use super::several::{IN_FLIGHT, Several, slow};
use crate::postgres::init;
use crate::support::postgres::shared;
use crate::support::process::Place;

/// Longer than a lease.
const LONG: Duration = Duration::from_secs(135);

#[test]
#[ignore = "takes three minutes: a lease is two"]
fn others_take_over_what_a_run_had_claimed_that_stands_still_and_its_late_answers_are_kept() {
    const ROWS: usize = 3_000;
    let Some(cluster) = shared() else { return };
    let (database, place, server) = (cluster.database(), Place::new(), slow(400));
    init(&place, &database);
    let runs = Several::start(&place, &server, (4, ROWS), &database.url(), &[]);
    server.wait_for_calls(ROWS / 4);
    let frozen = &runs.runs()[0];
    frozen.signal("STOP");
    thread::sleep(LONG);
    println!(
        "others meanwhile: {} calls, {} answers",
        server.calls(),
        database.count("answers")
    );
    frozen.signal("CONT");
    let bill = runs.done_within(LONG * 2);
    assert_eq!(
        (database.count("answers"), database.count("claims")),
        (ROWS, 0)
    );
    // Calls in flight, and answers on their way to the server.
    bill.is_counted("a run stands still for 135 s", 2 * IN_FLIGHT);
}
