//! `run --report`: the page of a run, written when it is finished; and what both commands refuse before they write one.

use super::{has, section, words};
use crate::support::process::Place;
use crate::support::server::{Server, good, status};
use crate::support::users;

#[test]
fn the_page_of_a_run_is_that_of_its_output() {
    let server = Server::start(|request| match request.name().as_str() {
        "User 5" => status(422),
        _ => good(request),
    });
    // Half of the rows had a verdict before.
    let old = users::scored(&users::csv(60)).replace("approve", "block");
    let old: Vec<_> = old.lines().collect();
    let input = format!("{}\n{}\n", old[..31].join("\n"), old[31..].join("\n"));
    let place = Place::with("users.csv", input);
    let args = "--fresh --report r.html --summary summary.json";
    let done = place.score(&server, args);
    done.exits(1);
    let args = "report scored.csv --run summary.json -o again.html";
    place.rescore(args).exits(0);
    let (page, again) = (place.text("r.html"), place.text("again.html"));
    for id in ["verdicts", "scores", "what-if", "rejects", "run"] {
        assert_eq!(section(&page, id), section(&again, id), "{id}");
    }
    has(
        &words(&page, "verdicts"),
        &["Of 59 rows with a verdict, ", "1 row has no verdict."],
    );
    has(
        &words(&page, "drift"),
        &["Compared with their earlier verdicts: "],
    );
    // The hashes and the command line are in the summary.
    for page in [&page, &again] {
        has(page, &["answered on 20"]);
        assert!(!page.contains("BLAKE3") && !page.contains("--rate"));
    }
    let names = place.names();
    assert!(
        !names.iter().any(|name| name.ends_with(".partial")),
        "{names:?}"
    );
}

#[test]
fn a_stopped_run_writes_no_page_and_the_continued_one_a_page_of_all_rows() {
    let (server, place) = (Server::good(), Place::with("users.csv", users::csv(20)));
    let done = place.score(&server, "--report r.html --max-calls 8");
    done.exits(5)
        .says("no report: it is written when the run is finished");
    assert_eq!(
        place.names(),
        ["rescore.ledger", "scored.csv.partial", "users.csv"]
    );
    place.score(&server, "--report r.html").exits(0);
    assert_eq!(server.calls(), 20);
    let page = place.text("r.html");
    has(&words(&page, "verdicts"), &["Of 20 rows with a verdict, "]);
    has(
        &words(&page, "run"),
        &["rows already paid for, taken from the ledger 8"],
    );
}

#[test]
fn the_page_of_a_part_says_so_and_that_of_all_rows_does_not() {
    const NOTE: &str = "A part. The run took only ";
    let (server, place) = (Server::good(), Place::with("users.csv", users::csv(400)));
    for (args, part) in [
        (&["--limit", "7"][..], Some("the first 7 rows of its input")),
        (&["--sample", "10%"], Some("a sample of 10% of its input")),
        (
            &["--limit", "2", "--sample", "12.5%"],
            Some("the first 2 rows of a sample of 12.5% of"),
        ),
        (&["--limit", "401"], None),
        (&[], None),
    ] {
        place
            .run(
                &server,
                "users.csv -o scored.csv --overwrite --report r.html --summary summary.json",
            )
            .args(args)
            .exits(0);
        let again = "report scored.csv --run summary.json -o again.html";
        place.rescore(again).arg("--overwrite").exits(0);
        for page in ["r.html", "again.html"] {
            let page = place.text(page).replace("<b>", "").replace("</b>", "");
            match part {
                Some(part) => assert!(page.contains(&format!("{NOTE}{part}")), "{args:?}"),
                None => assert!(!page.contains(NOTE), "{args:?}"),
            }
        }
    }
}

#[test]
fn decisions_by_level_have_no_thresholds_in_their_page() {
    let place = Place::with("users.csv", users::csv(20));
    let args = "run users.csv -o scored.csv --sandbox --report r.html";
    let levels = "--decide-by level=/summary/risk_level --approve-levels 0 --block-levels 2";
    let run = place.rescore(args).args("--summary s.json").args(levels);
    run.done();
    let again = "report scored.csv --run s.json -o again.html";
    place.rescore(again).exits(0);
    for page in ["r.html", "again.html"] {
        let page = place.text(page);
        has(&page, &["decided by level"]);
        assert!(!page.contains("aria-labelledby=\"what-if\"") && !page.contains("approve up to"));
    }
}

#[test]
fn rows_that_go_to_standard_output_are_in_the_page() {
    let (server, place) = (Server::good(), Place::with("users.csv", users::csv(12)));
    let args = "users.csv --report r.html --quiet";
    let done = place.run(&server, args).exits(0);
    done.silent_about("the report");
    assert_eq!(done.stdout, users::scored(&users::csv(12)).into_bytes());
    has(
        &words(&place.text("r.html"), "verdicts"),
        &["Of 12 rows with a verdict, "],
    );
}

#[test]
fn a_page_of_a_run_that_cannot_be_written_is_refused_before_the_first_call() {
    let (server, place) = (Server::good(), Place::with("users.csv", users::csv(3)));
    place.write("r.html", "mine");
    for path in ["r.html", "users.csv"] {
        place.score(&server, ["--report", path]).exits(2);
    }
    assert_eq!(server.calls(), 0);
    assert_eq!(place.names(), ["r.html", "users.csv"]);
    place.score(&server, "--report r.html --overwrite").exits(0);
    assert!(place.text("r.html").starts_with("<!DOCTYPE html>"));
    // If it fails later, it is missed with its cause.
    let done = place.score(&server, "--report /dev/full --overwrite");
    done.exits(0)
        .says("warning: cannot write `/dev/full`: no space left on device");
}
