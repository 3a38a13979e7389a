//! `run --report`: the page of a run, written when it is finished; and what both commands refuse before they write one.

use super::{has, section, words};
use crate::support::process::{Place, device};
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
    done.exits(1).says("wrote r.html: the report");
    let args = "report scored.csv --run summary.json -o again.html";
    place.rescore(args).done().exits(0);
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
    has(
        &words(&page, "verdicts"),
        &["Of 20 rows, ", "every row has a verdict"],
    );
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
        let done = place
            .run(
                &server,
                "users.csv -o scored.csv --overwrite --report r.html --summary summary.json",
            )
            .args(args)
            .done();
        done.exits(0);
        let again = "report scored.csv --run summary.json -o again.html";
        place.rescore(again).arg("--overwrite").done().exits(0);
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
    place.rescore(again).done().exits(0);
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
    let done = place.run(&server, args).done();
    done.exits(0).silent_about("the report");
    assert_eq!(done.stdout, users::scored(&users::csv(12)).into_bytes());
    has(&words(&place.text("r.html"), "verdicts"), &["Of 12 rows, "]);
}

#[test]
fn a_page_of_a_run_that_cannot_be_written_is_refused_before_the_first_call() {
    let (server, place) = (Server::good(), Place::with("users.csv", users::csv(3)));
    place.write("r.html", "mine");
    for (path, words) in [
        ("r.html", "`r.html` already exists"),
        ("nowhere/r.html", "cannot write `nowhere/r.html`"),
        ("scored.csv", "would be the same file"),
        ("users.csv", "would overwrite the input"),
        (
            "scored.rejects.csv",
            "the rejects `scored.rejects.csv` and the report",
        ),
    ] {
        let done = place.score(&server, ["--report", path]);
        done.exits(2).says(words);
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

#[test]
fn what_cannot_be_a_report_is_refused_and_leaves_nothing() {
    let place = Place::with("users.csv", users::csv(5));
    let args = ["--summary", "summary.json"];
    place.score(&Server::good(), args).exits(0);
    place.write("other.json", "{\"rows\":1}");
    place.write("six.csv", users::scored(&users::csv(6)));
    place.write("empty.csv", "");
    place.write("mine.html", "mine");
    let files = || {
        let read = |name: String| (place.read(&name), name);
        place.names().into_iter().map(read).collect::<Vec<_>>()
    };
    let before = files();
    let many = "--by 1 --by 2 --by 3 --by 4 --by 5 --by 6 --by 7 --by 8 --by 9";
    for (args, words) in [
        ("users.csv", "it has no column `transaction_id`"),
        ("nowhere.csv -o mine.html", "nowhere.csv"),
        (
            "scored.csv --by country",
            "no column `country` in `scored.csv`",
        ),
        ("scored.csv --by /user/id", "hint: did you mean `id`?"),
        (
            "scored.csv --against users.csv --key id",
            "`users.csv` is not a scored file",
        ),
        (
            "scored.csv --against empty.csv --key id",
            "`empty.csv` has no rows to compare with",
        ),
        (
            "scored.csv --against -",
            "this must be a file and not a stream",
        ),
        ("scored.csv --against six.csv", "--key <COLUMN>"),
        ("scored.csv --key id", "--against"),
        (
            "scored.csv --run other.json",
            "`other.json` is not the summary of a run",
        ),
        (
            "scored.csv --run nowhere.json",
            "cannot read `nowhere.json`: no such file",
        ),
        (
            "six.csv --run summary.json",
            "`summary.json` is about 5 rows, but `six.csv` has 6",
        ),
        (
            "scored.csv --approve-max 6",
            "`--approve-max 6` is above `--review-max 5`",
        ),
        (
            &format!("scored.csv {many}"),
            "`--by` was given 9 times, and 8 are allowed",
        ),
        ("scored.csv -o mine.html", "hint: `--overwrite` replaces it"),
        (
            "scored.csv -o scored.csv --overwrite",
            "would overwrite the input",
        ),
        (
            "scored.csv -o summary.json --overwrite --run summary.json",
            "would overwrite the input",
        ),
    ] {
        let mut args: Vec<_> = args.split(' ').collect();
        if !args.contains(&"-o") {
            args.extend(["-o", "r.html"]);
        }
        place
            .rescore("report")
            .args(args)
            .done()
            .exits(2)
            .says(words);
        assert!(files() == before);
    }
    let done = place.rescore("report scored.csv");
    let done = done.stdout(device("/dev/full")).done();
    done.exits(3)
        .says("cannot write standard output: no space left on device");
}
