//! A command line of `run` with `check` in place of `run`.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::agreement::{check, command};
use crate::support::process::Place;
use crate::support::server::{Server, good, status};
use crate::support::stand_in::StandIn;
use crate::support::users;

/// Checks with the very options of a run, which then makes as many calls as the check has counted.
#[track_caller]
fn agrees(place: &Place, stand_in: &StandIn<'_>, options: &[&str], code: i32) -> Value {
    let before = place.names();
    let said = check(place, &stand_in.url(), options);
    assert_eq!(place.names(), before, "nothing is written");
    let billed = |stand_in: &StandIn<'_>| stand_in.bill()["billed"].as_u64().unwrap();
    let earlier = billed(stand_in);
    let run = [&["run"], options].concat();
    let done = command(place, &stand_in.url(), &run).done();
    done.exits(code);
    let billed = billed(stand_in) - earlier;
    done.check(
        said["calls"] == billed,
        &format!("{billed} calls, as {said}"),
    );
    said
}

/// `users.csv` scored to `scored.csv` up to 4 calls.
fn stopped<'a>(place: &Place, of_stand_in: &'a Place) -> StandIn<'a> {
    let stand_in = StandIn::start(of_stand_in, "");
    let run = ["run", "users.csv", "-o", "scored.csv", "--max-calls", "4"];
    command(place, &stand_in.url(), &run).done().exits(5);
    stand_in
}

#[test]
fn the_ledger_beside_the_output_is_that_of_the_run_that_continues() {
    let place = Place::with("users.csv", users::csv(10));
    let of_stand_in = Place::new();
    let stand_in = stopped(&place, &of_stand_in);
    let options = ["users.csv", "-o", "scored.csv"];
    let more =
        "--retries 2 --timeout 5s --progress off --summary s.json --approve-max 3 --report r.html";
    let options = [&options[..], &more.split(' ').collect::<Vec<_>>()].concat();
    let said = agrees(&place, &stand_in, &options, 0);
    assert_eq!((&said["known"], &said["calls"]), (&json!(4), &json!(6)));
}

#[test]
fn a_stopped_fresh_run_is_found_by_its_output() {
    let place = Place::with("users.csv", users::csv(10));
    symlink("real.csv", place.path("link.csv")).unwrap();
    let of_stand_in = Place::new();
    let stand_in = StandIn::start(&of_stand_in, "");
    let shared = ["users.csv", "--ledger", "answers"];
    let run = |more: &[&str], code| {
        let run = [&["run"], &shared[..], more].concat();
        command(&place, &stand_in.url(), &run).done().exits(code);
    };
    run(&["-o", "all.csv"], 0);
    for output in [
        ["-o", "scored.csv"],
        ["-o", "link.csv"],
        ["--output-dir", "scored"],
    ] {
        let fresh = [&output[..], &["--fresh"]].concat();
        run(&[&fresh[..], &["--max-calls", "4"]].concat(), 5);
        let to_another = [&shared[..], &["-o", "other.csv"]].concat();
        assert_eq!(check(&place, &stand_in.url(), &to_another)["calls"], 0);
        let said = agrees(&place, &stand_in, &[&shared[..], &fresh].concat(), 0);
        let numbers = (&said["known"], &said["calls"]);
        assert_eq!(numbers, (&json!(4), &json!(6)), "{output:?}");
    }
}

#[test]
fn what_a_finished_fresh_run_failed_on_is_counted_if_it_is_retried() {
    let place = Place::with("users.csv", users::csv(10));
    let server = Server::start(|request| match request.nth {
        0..=10 => good(request),
        _ if request.name() == "User 3" => status(422),
        _ => good(request),
    });
    let shared = ["users.csv", "--ledger", "answers", "-o", "scored.csv"];
    let with = |verb, more: &[&str]| {
        let line = [&[verb], &shared[..], more].concat();
        command(&place, &server.url(), &line).done()
    };
    with("run", &[]).exits(0);
    with("run", &["--fresh", "--overwrite"]).exits(1);
    for (option, calls) in [("--retry-failed", 1), ("--overwrite", 0)] {
        let said = check(&place, &server.url(), &[&shared[..], &[option]].concat());
        let before = server.calls();
        with("run", &[option]).exits_with_one_of(&[0, 1]);
        let made = server.calls() - before;
        assert_eq!((&said["calls"], made), (&json!(calls), calls), "{option}");
    }
}

#[test]
fn with_fresh_and_without_a_ledger_no_answer_is_known() {
    for (option, ledger) in [
        ("--fresh", json!("rescore.ledger")),
        ("--no-ledger", json!(null)),
    ] {
        let place = Place::with("users.csv", users::csv(10));
        let of_stand_in = Place::new();
        let stand_in = stopped(&place, &of_stand_in);
        let options = ["users.csv", "-o", "scored.csv", option];
        let said = check(&place, &stand_in.url(), &options);
        let found = (&said["ledger"]["path"], &said["calls"]);
        assert_eq!(found, (&ledger, &json!(10)));
    }
}

#[test]
fn the_answers_of_a_finished_run_are_used_unless_all_are_asked_for_again() {
    let place = Place::with("users.csv", users::csv(10) + "11,,,,,\n");
    let of_stand_in = Place::new();
    let stand_in = stopped(&place, &of_stand_in);
    let options = ["users.csv", "-o", "scored.csv"];
    agrees(&place, &stand_in, &options, 1);
    for (more, calls) in [
        (&["--retry-failed"][..], 0),
        (&["--overwrite"], 0),
        (&["--overwrite", "--fresh"], 10),
        (&["--overwrite", "--no-ledger"], 10),
    ] {
        let said = agrees(&place, &stand_in, &[&options[..], more].concat(), 1);
        assert_eq!(said["calls"], calls, "{more:?}");
    }
}

#[test]
fn finished_files_of_the_directory_are_skipped() {
    let place = Place::with("a.csv", users::csv(5));
    place.write("b.csv", users::csv(8));
    let of_stand_in = Place::new();
    let stand_in = StandIn::start(&of_stand_in, "");
    let options = ["?.csv", "--output-dir", "scored"];
    // The first file is finished, and one of the second's three further rows is paid for.
    let run = [&["run"], &options[..], &["-c", "1", "--max-calls", "6"]].concat();
    command(&place, &stand_in.url(), &run).done().exits(5);
    let said = agrees(&place, &stand_in, &options, 0);
    assert_eq!((&said["known"], &said["calls"]), (&json!(6), &json!(2)));
    let finished: Vec<_> = said["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["finished"] == true)
        .collect();
    assert_eq!(finished, [true, false]);
    let done = place.rescore(["check"]).args(options).done();
    done.exits(0);
    let said = done.printed();
    assert!(
        said.contains("2 files: 0 rows\n  a.csv: finished\n"),
        "{said}"
    );
}

#[test]
fn a_finished_file_whose_input_was_modified_since_is_refused_as_the_run_refuses_it() {
    let place = Place::with("a.csv", users::csv(5));
    let of_stand_in = Place::new();
    let stand_in = StandIn::start(&of_stand_in, "");
    let options = ["a.csv", "--output-dir", "scored"];
    agrees(&place, &stand_in, &options, 0);
    place.write("a.csv", users::csv(6));
    for verb in ["check", "run"] {
        let refused = [&[verb], &options[..]].concat();
        command(&place, &stand_in.url(), &refused)
            .done()
            .exits(2)
            .says("`scored/a.csv` is older than its input, which was modified since: `a.csv`\n");
    }
}

#[test]
fn an_output_with_rejects_is_scored_again_once_both_are_removed() {
    // A row that cannot be sent.
    let csv = users::csv(5) + "6,,,,\n";
    let place = Place::with("a.csv", &csv);
    let of_stand_in = Place::new();
    let stand_in = StandIn::start(&of_stand_in, "");
    let options = ["a.csv", "--output-dir", "scored"];
    agrees(&place, &stand_in, &options, 1);
    place.write("a.csv", users::csv(6) + "7,,,,\n");
    let refused = |words: &str| {
        for verb in ["check", "run"] {
            let line = [&[verb], &options[..]].concat();
            let done = command(&place, &stand_in.url(), &line).done();
            done.exits(2).says(words);
        }
    };
    refused("hint: remove `scored/a.csv` and `scored/a.rejects.csv` to score this input again");
    fs::remove_file(place.path("scored/a.csv")).unwrap();
    let run = [&["run"], &options[..]].concat();
    let done = command(&place, &stand_in.url(), &run).done();
    done.exits(2).says("`scored/a.rejects.csv` already exists");
    fs::remove_file(place.path("scored/a.rejects.csv")).unwrap();
    agrees(&place, &stand_in, &options, 1);
}

#[test]
fn a_directory_that_is_replaced_pays_for_nothing_again() {
    let place = Place::with("users.csv", users::csv(9) + "10,,,,\n");
    let of_stand_in = Place::new();
    let stand_in = StandIn::start(&of_stand_in, "");
    let options = ["users.csv", "--output-dir", "scored"];
    agrees(&place, &stand_in, &options, 1);
    for (more, calls) in [
        (&[][..], 0),
        (&["--retry-failed"], 0),
        (&["--overwrite", "--retry-failed"], 0),
        (&["--overwrite"], 0),
        (&["--overwrite", "--fresh"], 9),
    ] {
        let said = agrees(&place, &stand_in, &[&options[..], more].concat(), 1);
        assert_eq!(said["calls"], calls, "{more:?}");
    }
}

#[test]
fn a_file_that_the_run_refuses_costs_no_call() {
    let header = users::csv(0);
    let rows = |users| users::csv(users).split_off(header.len());
    let nameless = "0,,n@example.com,::1,curl/8\n".repeat(120);
    let place = Place::with("a.csv", header.clone() + &nameless + &rows(3) + &rows(3));
    place.write("b.csv", users::named(["Ann", "Bo", "Cy", "Di"]));
    let of_stand_in = Place::new();
    let stand_in = StandIn::start(&of_stand_in, "");
    let options = ["?.csv", "--output-dir", "scored"];
    for verb in ["check", "run"] {
        let line = [&[verb], &options[..]].concat();
        let done = command(&place, &stand_in.url(), &line).done();
        done.exits(2)
            .says("the first 100 rows of `a.csv` all fail for the same reason, `missing_name`");
    }
    assert_eq!(stand_in.bill()["billed"], 4);
    fs::remove_dir_all(place.path("scored")).unwrap();
    let anyway = [&options[..], &["--keep-going"]].concat();
    assert_eq!(agrees(&place, &stand_in, &anyway, 1)["calls"], 7);
}

#[test]
fn what_keeps_the_run_from_sending_anything_is_a_warning() {
    let place = Place::with("users.csv", users::csv(3) + "4,,,,,\n");
    let done = place
        .rescore("check users.csv --min-rows 5 --max-invalid 20%")
        .done();
    done.exits(1).says(
        "warning: `rescore run` sends nothing: 1 of the 4 rows of `users.csv` cannot be sent",
    );
    let few =
        "warning: `rescore run` sends nothing: `users.csv` has 4 rows, fewer than `--min-rows 5`";
    let done = place.rescore("check users.csv --min-rows 5").done();
    done.exits(1).says(few);
    // As for the run, all rows of a file count, and those of a stream cannot be counted first.
    let all = place
        .rescore("check users.csv --min-rows 4 --limit 1")
        .done();
    all.exits(0).silent_about("sends nothing");
    let piped = place
        .rescore("check --min-rows 5")
        .stdin(place.read("users.csv"));
    piped
        .done()
        .exits(1)
        .says("sends nothing")
        .says("`--min-rows` needs a file");
    let lines = format!("{}{}", users::csv(0), ",,,,\n".repeat(100));
    place.write("users.csv", lines);
    let check = place.rescore("check users.csv --keep-going").done();
    let said = check.printed();
    assert!(!said.contains("refuses this file"), "{said}");
}
