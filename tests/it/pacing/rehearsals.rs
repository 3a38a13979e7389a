//! Rehearsals with the stand-in: a run that is refused, and a key that is rotated.

use serde_json::json;

use crate::support::process::{Place, Program};
use crate::support::stand_in::StandIn;
use crate::support::users;

/// A run over the place's users against a stand-in, with the key in a file.
fn run<'a>(place: &'a Place, stand_in: &StandIn<'_>) -> Program<'a> {
    let url = stand_in.url();
    let arguments = ["run", "users.csv", "-o", "scored.csv", "--base-url", &url];
    let program = place.rescore(arguments);
    program.args("--service-id test --api-key-file key.txt")
}

/// So many users, and a file with this key.
fn place(users: usize, key: &str) -> Place {
    let place = Place::with("users.csv", users::csv(users));
    write_key(&place, key);
    place
}

fn write_key(place: &Place, key: &str) {
    use std::os::unix::fs::PermissionsExt;
    place.write("key.txt", key);
    let only_ours = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(place.path("key.txt"), only_ours).unwrap();
}

#[test]
fn keys_that_it_was_not_given_are_refused() {
    let place = place(3, "third-key");
    let accepted = ["--accept-key", "first-key", "--accept-key", "second-key"];
    let stand_in = StandIn::start(&place, accepted);
    run(&place, &stand_in)
        .done()
        .exits(4)
        .says("error: the service does not accept the API key")
        .says("the stand-in does not accept this key");
    let bill = stand_in.bill();
    assert_eq!([&bill["refused"], &bill["billed"]], [&json!(1), &json!(0)]);
    for key in ["first-key", "second-key"] {
        write_key(&place, key);
        run(&place, &stand_in)
            .args("--overwrite --no-ledger")
            .done()
            .exits(0);
    }
    let done = stand_in.stop();
    done.exits(0)
        .says("RESCORE_API_KEY set to a key of `--accept-key`");
    for key in ["first-key", "second-key", "third-key"] {
        done.silent_about(key);
    }
}

#[test]
fn a_rotated_key_can_be_rehearsed() {
    let place = place(400, "old-key");
    let slow = ["--latency", "20ms", "--accept-key"];
    let before = StandIn::start(&place, [&slow[..], &["old-key"]].concat());
    let running = run(&place, &before).args("-c 4").start();
    running.wait_for_file("scored.csv.partial", |partial| !partial.is_empty());
    let address = before.address();
    before.stop().exits(0);
    write_key(&place, "new-key");
    let after = StandIn::start_at(&place, &address, [&slow[..], &["new-key"]].concat());
    let done = running.done();
    done.exits(0)
        .says("rescore: a new API key was read from its file; continuing with it")
        .says("400 rows in ");
    assert!(after.bill()["refused"].as_u64() > Some(0));
    after.stop().exits(0);
}

#[test]
fn a_run_out_of_credit_and_a_bare_403_can_be_rehearsed() {
    let place = place(30, "any-key");
    let stand_in = StandIn::start(&place, "--fault 402=1");
    run(&place, &stand_in)
        .done()
        .exits(4)
        .says("error: the account is out of credit");
    assert_eq!(stand_in.bill()["faults"]["402"], json!(1));
    stand_in.stop().exits(0).says("faults: 1 × 402");

    let stand_in = StandIn::start(&place, "--fault 403=0.1 --seed 1");
    let done = run(&place, &stand_in).args("-c 1 --rate unlimited").done();
    let forbidden = stand_in.bill()["faults"]["403"].as_u64().unwrap();
    assert!(forbidden > 0);
    done.exits(1).says(&format!("forbidden {forbidden}"));
    stand_in.stop().exits(0);

    let stand_in = StandIn::start(&place, "--fault 403=1");
    run(&place, &stand_in)
        .arg("--overwrite")
        .done()
        .exits(4)
        .says("403");
    stand_in.stop().exits(0);
}
