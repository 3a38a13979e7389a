//! The file of `--changes`: what it never overwrites, where it is after a stop, and older answers that are compared.

use super::drift::{FRONT, Night, compared};
use crate::support::ledger_file;
use crate::support::process::Place;
use crate::support::server::{Request, Server, good, good_body, ok, status};
use crate::support::users::{self, COLUMNS, Verdict};

#[test]
fn changes_overwrite_nothing_that_they_should_not() {
    let server = Server::good();
    let csv = users::csv(3);
    for changes in [
        "users.csv",
        "scored.csv",
        "./scored.csv.partial",
        "scored.rejects.csv",
        "rescore.ledger",
        "summary.json",
    ] {
        let place = Place::with("users.csv", &csv);
        place
            .score(
                &server,
                [
                    "--overwrite",
                    "--summary",
                    "summary.json",
                    "--changes",
                    changes,
                ],
            )
            .exits(2)
            .says("changes")
            .says("another name");
        assert_eq!(place.text("users.csv"), csv);
        // The failure is in the summary.
        let mut names = place.names();
        names.retain(|name| name != "summary.json");
        assert_eq!(names, ["users.csv"]);
    }
    let place = Place::with("users.csv", &csv);
    place.write("changes.csv", "last night's");
    compared(&place, &server)
        .done()
        .exits(2)
        .says("`changes.csv` already exists")
        .says("--overwrite");
    assert_eq!(place.text("changes.csv"), "last night's");
    place
        .score(&server, "--changes no/such/changes.csv")
        .exits(2)
        .says("no/such/changes.csv");
    assert_eq!(
        (place.names(), server.calls()),
        (
            ["changes.csv", "summary.json", "users.csv"]
                .map(str::to_owned)
                .to_vec(),
            0
        )
    );
    compared(&place, &server).arg("--overwrite").done().exits(0);
    assert_eq!(place.text("changes.csv").lines().count(), 1);
}

#[test]
fn a_run_that_stops_leaves_its_changes_beside_its_output() {
    let night = Night::of(12);
    // The first eight users are answered, then the credit runs out; in the second run all are answered.
    let script = |request: &Request| {
        if request.nth == 9 {
            status(402)
        } else {
            good(request)
        }
    };
    let first = |lines: usize| -> String {
        let lines = night.changes.lines().take(lines);
        lines.map(|line| format!("{line}\n")).collect()
    };
    let place = Place::with("users.csv", &night.input);
    let server = Server::start(script);
    compared(&place, &server)
        .arg("-c1")
        .done()
        .exits(4)
        .says("2 of 8 decisions changed; see changes.csv.partial");
    assert_eq!(
        place.names(),
        [
            "changes.csv.partial",
            "rescore.ledger",
            "scored.csv.partial",
            "summary.json",
            "users.csv"
        ]
    );
    assert_eq!(place.text("changes.csv.partial"), first(3));
    assert_eq!(
        place.json("summary.json")["changes"]["path"],
        "changes.csv.partial"
    );
    // The same command continues, and the changes are complete.
    compared(&place, &server).arg("-c1").done().exits(0);
    assert_eq!(place.text("changes.csv"), night.changes);
    assert_eq!(
        place.names(),
        [
            "changes.csv",
            "rescore.ledger",
            "scored.csv",
            "summary.json",
            "users.csv"
        ]
    );
    assert_eq!(server.calls(), 13);

    // Without a ledger both files block the next run, and both are named.
    let place = Place::with("users.csv", &night.input);
    compared(&place, &Server::start(script))
        .args("-c1 --no-ledger")
        .done()
        .exits(4)
        .says("move it and the files beside it away");
}

#[test]
fn older_answers_of_the_ledger_are_compared_where_the_input_has_none() {
    // A user who is asked again gets a slightly worse score each time.
    let server = Server::start(|request| {
        let Verdict { score, .. } = Verdict::of(&request.name());
        let now = ["0.5", "3.5", "9.5"][request.attempt.min(3) - 1];
        let body = good_body(&request.name());
        ok(&body.replace(&format!(":{score}}}"), &format!(":{now}}}")))
    });
    let csv = users::csv(4);
    let rows = |before: &str, now: &str| -> String {
        let mut lines = csv.lines();
        let header = lines.next().unwrap();
        let rows = (1..)
            .zip(lines)
            .map(|(row, line)| format!("{row},{before},{now},{line}\n"));
        format!("{FRONT}{header}\n{}", rows.collect::<String>())
    };
    let place = Place::with("users.csv", &csv);
    let run = |more: &str| {
        let program = compared(&place, &server).arg("--overwrite");
        program.args(more).done()
    };
    let age = || {
        assert_eq!(
            ledger_file::age(&place.path("rescore.ledger"), &server, 60_000) % 4,
            0
        );
    };
    run("").exits(0).silent_about("before");
    age();
    run("--fresh")
        .exits(0)
        .says("4 of 4 decisions changed; see changes.csv");
    assert_eq!(place.text("changes.csv"), rows("approve,0.5", "review,3.5"));
    // An answer that is reused is not an older answer.
    run("").exits(0).silent_about("before");
    age();
    run("--max-age 1s").exits(0);
    assert_eq!(place.text("changes.csv"), rows("review,3.5", "block,9.5"));
    assert_eq!(place.json("summary.json")["drift"]["review"]["block"], 4);

    age();
    // The row's own verdict counts before the ledger's.
    let known = csv
        .replace("user_agent\n", &format!("user_agent{COLUMNS}\n"))
        .replace("(X11)\n", "(X11),,,block\n");
    place.write("users.csv", known);
    run("--fresh").exits(0).says("0 of 4 decisions changed");
    assert_eq!(server.calls(), 16);
}

#[test]
fn rows_may_go_down_a_pipe_and_changes_to_a_file() {
    let (server, night) = (Server::good(), Night::of(6));
    let place = Place::new();
    let done = place
        .run(&server, "--changes changes.csv.gz")
        .stdin(night.input)
        .done();
    done.exits(0)
        .says("2 of 6 decisions changed; see changes.csv.gz");
    assert_eq!(done.stdout, users::scored(&users::csv(6)).into_bytes());
    let mut unpacked = String::new();
    let packed = place.read("changes.csv.gz");
    std::io::Read::read_to_string(
        &mut flate2::read::GzDecoder::new(packed.as_slice()),
        &mut unpacked,
    )
    .unwrap();
    assert_eq!(unpacked, night.changes);
    assert_eq!(place.names(), ["changes.csv.gz", "rescore.ledger"]);
}
