//! What a run asks of the system's memory.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use crate::support::process::Place;
use crate::support::server::{Server, good};
use crate::support::users;

#[test]
fn a_run_takes_no_huge_pages_where_the_system_gives_them_unasked() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let server = Server::start(move |request| {
        let _ = released.lock().unwrap().recv();
        good(request)
    });
    let place = Place::with("users.csv", users::csv(1));
    let running = place
        .run(&server, ["users.csv", "-o", "scored.csv"])
        .start();
    server.wait_for_calls(1);
    // Linux tells it from 5.0 on.
    let given = running.status("THP_enabled:");
    drop(release);
    running.done().exits(0);
    assert!(given.is_none_or(|given| given == "0"));
}
