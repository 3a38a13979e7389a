//! The rejects: where they go, what happens when they cannot be written, and that they can be fixed and run again.

use std::os::unix::fs::symlink;

use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

#[test]
fn rejects_go_where_they_are_asked_to_and_are_absent_when_there_are_none() {
    let csv = format!("{}9,,u@x.org,::1,u\n", users::csv(1));
    let server = Server::good();
    let place = Place::with("users.csv", &csv);
    place
        .score(&server, "--rejects bad.csv")
        .exits(1)
        .says("bad.csv");
    assert_eq!(
        place.names(),
        ["bad.csv", "rescore.ledger", "scored.csv", "users.csv"]
    );
    let expected = "reject_row,reject_reason,reject_message,id,name,email,ip,user_agent\n\
        2,missing_name,line 3: no name,9,,u@x.org,::1,u\n";
    assert_eq!(place.text("bad.csv"), expected);

    // When the rejects were fixed, no old rejects are left that could be taken for new ones.
    place.write("users.csv", users::csv(1));
    place
        .score(&server, "--rejects bad.csv --overwrite")
        .exits(0);
    assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
}

#[test]
fn rejects_can_be_fixed_and_run_again() {
    let server = Server::good();
    let place = Place::with(
        "users.csv",
        "name,email,ip,user_agent\r\n\"A, B\",a@x.org,1.1.1,u\r\n",
    );
    place.score(&server, "").exits(1);
    place.write(
        "fixed.csv",
        place
            .text("scored.rejects.csv")
            .replace("1.1.1,u", "1.1.1.1,u"),
    );
    place.run(&server, "fixed.csv -o again.csv").done().exits(0);
    assert_eq!(server.only_request().name(), "A, B");
}

#[test]
fn a_device_that_takes_the_rejects_is_not_removed() {
    let (place, server) = (Place::with("users.csv", users::csv(1)), Server::good());
    // As root, removing a device would break the whole machine.
    symlink("/dev/null", place.path("null")).unwrap();
    place.score(&server, "--rejects null").exits(0);
    assert_eq!(
        place.names(),
        ["null", "rescore.ledger", "scored.csv", "users.csv"]
    );
}

#[test]
fn rejects_that_cannot_be_written_cost_no_paid_row() {
    let csv = format!("{}9,,u@x.org,::1,u\n", users::csv(30));
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let done = place.score(&server, "--rejects /dev/full");
    done.exits(3)
        .says("/dev/full")
        .says("no space left")
        .says("scored.csv.partial has the");
    let partial = place.text("scored.csv.partial");
    assert_eq!(partial, users::scored_without(&csv, str::is_empty));
}
