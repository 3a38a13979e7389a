//! What a run asks of the system's memory.

use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

#[test]
fn a_run_takes_no_huge_pages_where_the_system_gives_them_unasked() {
    let (server, release) = Server::holding_if(|_| true);
    let place = Place::with("users.csv", users::csv(1));
    let running = place.scoring(&server).start();
    server.wait_for_calls(1);
    // Linux reports it since 5.0.
    let given = running.status("THP_enabled:");
    drop(release);
    running.done().exits(0);
    assert!(given.is_none_or(|given| given == "0"));
}
