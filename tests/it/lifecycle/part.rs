//! A part of a file first: its output has these rows, and the whole file then pays only for the other users.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::time::Duration;

use serde_json::Value;

use crate::support::process::{Done, Place};
use crate::support::server::{Request, Server, good, ok, status};
use crate::support::users;

/// The header and the rows of these numbers.
fn rows(csv: &str, numbers: impl IntoIterator<Item = usize>) -> String {
    let lines: Vec<_> = csv.lines().collect();
    let numbers = [0].into_iter().chain(numbers);
    numbers.map(|row| format!("{}\n", lines[row])).collect()
}

/// The numbers of the rows of `csv` that a part's output has.
fn numbers_of(place: &Place, csv: &str) -> Vec<usize> {
    let scored = users::scored(csv);
    let whole: Vec<_> = scored.lines().collect();
    let output = place.text("scored.csv");
    let number = |line: &str| whole.iter().position(|row| *row == line).unwrap();
    output.lines().skip(1).map(number).collect()
}

#[test]
fn a_part_then_a_larger_one_then_the_whole_file_pays_for_each_user_once() {
    // Users 1 to 5, the first two again, and 15 others.
    let names = (1..=5).chain([1, 2]).chain(6..=20);
    let csv: String = {
        let row = |user| format!("{user},User {user},u@example.com,192.0.2.1,curl/8\n");
        "id,name,email,ip,user_agent\n".to_owned() + &names.map(row).collect::<String>()
    };
    let place = Place::with("users.csv", &csv);
    let server = Server::good();
    let part = |limit| place.score(&server, ["--limit", limit, "--summary", "s.json"]);
    // The same part twice, a larger one with a row that is known, a smaller one, and a larger one again.
    for (limit, calls) in [("3", 3), ("3", 3), ("6", 5), ("2", 5), ("10", 8)] {
        let done = part(limit);
        done.exits(0)
            .says(&format!("sending the first {limit} rows of users.csv to"))
            .says(&format!("wrote scored.csv: the first {limit} rows\n"))
            .says("the same command without `--limit` or `--sample` pays for none of these rows again");
        assert_eq!(server.calls(), calls, "{limit}");
        let taken = limit.parse().unwrap();
        assert_eq!(
            place.text("scored.csv"),
            users::scored(&rows(&csv, 1..=taken))
        );
        let part = serde_json::json!({"limit": taken, "sample_percent": null});
        assert_eq!(place.json("s.json")["part"], part);
        assert_eq!(place.json("s.json")["rows"]["read"], taken);
    }
    let done = place.score(&server, "");
    done.exits(0)
        .says("continuing the unfinished run")
        .says("10 rows already paid for");
    assert_eq!(server.calls(), 20);
    assert!(server.requests().iter().all(|request| request.attempt == 1));
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    assert_eq!(
        place.names(),
        ["rescore.ledger", "s.json", "scored.csv", "users.csv"]
    );
    // It is finished: the next one is another run.
    place.score(&server, "").exits(2).says("already exists");
}

#[test]
fn retrying_the_failed_rows_of_a_part_sends_the_others_as_well() {
    let place = Place::with("users.csv", users::csv(20));
    let server = Server::start(|request: &Request| match request.nth {
        2 => status(422),
        _ => good(request),
    });
    place.score(&server, "--limit 5").exits(1);
    place.score(&server, "--retry-failed").exits(0);
    assert_eq!(server.calls(), 21);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(20)));
}

#[test]
fn a_sample_is_the_same_whatever_the_ledger_and_the_order_and_equal_rows_are_all_in_it_or_none() {
    let csv = users::csv(400);
    let twice = csv.clone() + csv.split_once('\n').unwrap().1;
    let sample = |csv: &str, share: &str| {
        let (place, server) = (Place::with("users.csv", csv), Server::good());
        let done = place.score(&server, ["--sample", share, "--summary", "s.json"]);
        done.exits(0)
            .says(&format!("wrote scored.csv: a sample of {share}\n"));
        assert_eq!(
            format!(
                "{}%",
                place.json("s.json")["part"]["sample_percent"]
                    .as_f64()
                    .unwrap()
            ),
            share
        );
        let numbers = numbers_of(&place, csv);
        let users: BTreeSet<_> = numbers.iter().collect();
        assert_eq!(server.calls(), users.len());
        numbers
    };
    let one = sample(&csv, "10%");
    assert!((20..=60).contains(&one.len()), "{one:?}");
    assert_eq!(sample(&csv, "10%"), one);
    // As `numbers_of` finds the first of two equal rows, each is there twice.
    assert_eq!(sample(&twice, "10%"), [one.clone(), one.clone()].concat());
    let two = sample(&csv, "20%");
    assert!(one.iter().all(|row| two.contains(row)) && two.len() > one.len());
    // Sorted the other way round, the same users.
    let backwards = rows(&csv, (1..=400).rev());
    let mirrored: Vec<_> = sample(&backwards, "10%")
        .iter()
        .rev()
        .map(|row| 401 - row)
        .collect();
    assert_eq!(mirrored, one);
}

#[test]
fn a_sample_then_its_first_rows_then_the_whole_file_pays_for_each_user_once() {
    let csv = users::csv(300);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place.score(&server, "--sample 10%").exits(0);
    let drawn = numbers_of(&place, &csv);
    assert_eq!(server.calls(), drawn.len());
    let done = place.score(&server, "--sample 20% --limit 5");
    done.exits(0)
        .says("sending the first 5 rows of a sample of 20% of users.csv")
        .says("without `--limit` or `--sample` pays for none of these rows again");
    let first = numbers_of(&place, &csv);
    assert_eq!(first.len(), 5);
    place.score(&server, "--sample 20%").exits(0);
    assert_eq!(numbers_of(&place, &csv)[..5], first);
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 300);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_whole_run_that_is_killed_after_a_part_continues_and_replaces_the_parts_output() {
    let csv = users::csv(200);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(|request| good(request).after(Duration::from_millis(2)));
    let run = |args: &[&str]| {
        let run = place.run(&server, "users.csv -o scored.csv -c 4");
        run.args(args)
    };
    run(&["--limit", "50"])
        .done()
        .exits(0)
        .says("without `--limit` or `--sample` pays for none of these rows again");
    assert_eq!(server.calls(), 50);
    for calls in [90, 130] {
        let killed = run(&[]).start().kill_when(|| server.calls() >= calls);
        killed.check(killed.code().is_none(), "it was killed");
        assert_eq!(place.text("scored.csv"), users::scored(&rows(&csv, 1..=50)));
    }
    run(&[]).done().exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    let again = server.calls() - 200;
    // At most twice the calls in flight for each kill.
    assert!(again <= 2 * 2 * 4, "{again}");
}

#[test]
fn a_part_that_is_stopped_continues_like_any_run() {
    let csv = users::csv(30);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    for (most, code) in [("8", 5), ("16", 5), ("20", 0)] {
        let args = ["--limit=20", "--summary=s.json", "--max-calls", most];
        place.score(&server, args).exits(code);
        assert_eq!(place.json("s.json")["part"]["limit"], 20);
    }
    assert_eq!(server.calls(), 20);
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 30);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn rejects_of_a_part_have_the_row_numbers_of_the_input_and_cost_nothing_again() {
    // Every tenth row cannot be sent, and the service rejects every seventh.
    let csv = users::named((1..=200).map(|row| match row % 10 {
        0 => String::new(),
        _ => format!("User {row}"),
    }));
    let place = Place::with("users.csv", &csv);
    let server = Server::start(|request| {
        let row: usize = request.name()[5..].parse().unwrap();
        if row.is_multiple_of(7) {
            status(422)
        } else {
            good(request)
        }
    });
    let rejected = |place: &Place| -> Vec<(usize, String)> {
        let rejects = place.text("scored.rejects.csv");
        let row = |line: &str| {
            let mut cells = line.split(',');
            let row = cells.next().unwrap().parse().unwrap();
            (row, cells.next().unwrap().to_owned())
        };
        rejects.lines().skip(1).map(row).collect()
    };
    place
        .score(&server, "--sample 30%")
        .exits(1)
        .says("without `--limit` or `--sample` pays for none of these rows again");
    let (calls, of_sample) = (server.calls(), rejected(&place));
    assert!(of_sample.len() > 5, "{of_sample:?}");
    // None is sent again, whatever became of it.
    place.score(&server, "--sample 30%").exits(1);
    assert_eq!(server.calls(), calls);
    place.score(&server, "").exits(1);
    assert_eq!(server.calls(), 180);
    let of_all = rejected(&place);
    assert!(of_sample.iter().all(|row| of_all.contains(row)));
    for (row, reason) in of_all {
        let expected = if row % 10 == 0 {
            "missing_name"
        } else {
            "refused"
        };
        assert!(row % 7 == 0 || row % 10 == 0, "{row}");
        assert_eq!(reason, expected, "{row}");
    }
    // Now it is finished: what failed can be retried.
    place.score(&server, "--retry-failed --keep-going").exits(1);
    assert_eq!(server.calls(), 180 + 200 / 7 - 200 / 70);
}

#[test]
fn with_a_limit_a_pipe_that_stays_open_and_the_rest_of_a_file_are_not_waited_for() {
    let (place, server) = (Place::new(), Server::good());
    let csv = users::csv(5);
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(csv.as_bytes()).unwrap();
    let run = place.run(&server, "- --limit 4");
    let done = run.stdin_from(reader).done();
    done.exits(0);
    assert_eq!(done.printed(), users::scored(&rows(&csv, 1..=4)));
    drop(writer);
    // What is wrong with the rest of a file is not found, as it is not read.
    let broken = csv + &"x".repeat(2_000_000) + "\n\0";
    place.write("users.csv", broken);
    place.score(&server, "--limit 5").exits(0);
}

#[test]
fn objects_and_blank_lines_of_a_part_stay_as_they_are() {
    let object = |name| users::object(name);
    let scored = |name: &str| {
        let object = users::object(name);
        let members = users::Verdict::of(name).members();
        format!("{}{members}}}", object.strip_suffix('}').unwrap())
    };
    let jsonl = format!(
        "\n{}\n\r\n{}\r\n{}\n\n\n",
        object("a"),
        object("b"),
        object("c")
    );
    let place = Place::with("users.jsonl", &jsonl);
    let server = Server::good();
    let run = |args: &[&str]| {
        let run = place.run(&server, "users.jsonl -o scored.jsonl");
        run.args(args).done().exits(0).says("");
        place.text("scored.jsonl")
    };
    let two = format!("\n{}\n\r\n{}\r\n", scored("a"), scored("b"));
    let three = format!("{two}{}\n", scored("c"));
    assert_eq!(run(&["--limit", "2"]), two);
    // Nobody has looked whether blank lines or rows follow.
    assert_eq!(run(&["--limit", "3"]), three);
    // The end was reached, so this was the whole file.
    assert_eq!(run(&["--limit", "4"]), format!("{three}\n\n"));
    assert_eq!(
        run(&["--sample", "100%", "--overwrite"]),
        format!("{three}\n\n")
    );
    assert_eq!(
        place.names(),
        ["rescore.ledger", "scored.jsonl", "users.jsonl"]
    );
}

#[test]
fn a_part_of_which_nothing_is_kept_says_so() {
    let csv = users::csv(9);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let nothing =
        "no ledger keeps the 3 paid answers of this run: another run makes the same calls again";
    let done = place.run(&server, "users.csv --limit 3 --no-ledger").done();
    done.exits(0).says(nothing).silent_about("continues");
    let done = place.score(&server, "--limit 3 --no-ledger");
    done.exits(0).says(nothing).silent_about("continues");
    place.score(&server, "").exits(2).says("already exists");
    assert_eq!(server.calls(), 6);
    // Standard output with a ledger.
    let kept = |args: &str| place.run(&server, "users.csv").args(args).done();
    kept("--limit 3")
        .exits(0)
        .says("without `--limit` or `--sample` pays for none of these rows again");
    let whole = kept("");
    whole.exits(0);
    assert_eq!(server.calls(), 15);
    assert_eq!(whole.printed(), users::scored(&csv));
}

#[test]
fn a_part_is_replaced_by_the_whole_and_by_nothing_else() {
    let csv = users::csv(9);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let score = |args: &str| {
        let run = place.run(&server, "users.csv -o scored.csv");
        run.args(args).done()
    };
    score("--limit 3").exits(0);
    score("--max-calls 5").exits(5);
    score("").exits(0);
    assert_eq!(server.calls(), 9);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    // The whole is finished.
    score("").exits(2).says("already exists");
    score("--limit 3").exits(2).says("already exists");
    // From a pipe, the refusal comes before the rows; with `--overwrite` it costs nothing either.
    fs::remove_file(place.path("scored.csv")).unwrap();
    let piped = |args: &str| {
        let run = place.run(&server, "-o scored.csv");
        run.args(args).stdin(csv.as_bytes()).done()
    };
    piped("--limit 3").exits(0);
    piped("").exits(2);
    piped("--overwrite").exits(0);
    assert_eq!(server.calls(), 9);
}

#[test]
fn the_output_of_a_part_that_was_edited_or_of_another_file_is_not_replaced() {
    let csv = users::csv(9);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place.write("others.csv", users::csv(4));
    place.score(&server, "--limit 3").exits(0);
    let others = place.run(&server, "others.csv -o scored.csv").done();
    others.exits(2).says("already exists");
    place.write("scored.csv", "mine");
    place
        .score(&server, "")
        .exits(2)
        .says("is not as the unfinished run left it");
    place.score(&server, "--overwrite").exits(0);
    assert_eq!(server.calls(), 9);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_part_of_a_file_that_was_scored_before_costs_nothing_and_replaces_it_only_when_told_to() {
    let csv = users::csv(9);
    let place = Place::with("users.csv", &csv);
    let server = Server::start(|request| match request.name().as_str() {
        "User 9" => ok("{}"),
        _ => good(request),
    });
    place.score(&server, "").exits(1);
    place
        .score(&server, "--limit 3")
        .exits(2)
        .says("already exists");
    place.score(&server, "--limit 3 --overwrite").exits(0);
    assert_eq!(place.text("scored.csv").lines().count(), 4);
    place.score(&server, "").exits(1);
    assert_eq!(place.text("scored.csv").lines().count(), 10);
    assert_eq!(server.calls(), 9);
}

#[test]
fn what_is_no_part_is_refused() {
    let (place, server) = (Place::with("users.csv", users::csv(9)), Server::good());
    let refused = |args: &[&str]| -> Done { place.score(&server, args) };
    refused(&["--limit", "0"]).exits(2).says("at least 1");
    for share in ["0%", "101%", "0.5", "one"] {
        refused(&["--sample", share])
            .exits(2)
            .says("expected a share above 0% and up to 100%");
    }
    for part in ["--limit=3", "--sample=3%"] {
        refused(&["--retry-failed", part])
            .exits(2)
            .says("cannot be used with");
    }
    // Nobody is in it, which is worth a warning and no error.
    let nobody = refused(&["--sample", "0.000001%"]);
    nobody
        .exits(0)
        .says("warning: a sample of 0.000001% of users.csv has no rows");
    assert_eq!(server.calls(), 0);
}

#[test]
fn progress_of_a_part_comes_to_a_hundred_percent() {
    let place = Place::with("users.csv", users::csv(3_000));
    let run = |args: &[&str]| -> Vec<f64> {
        let run = place.rescore(
            "run users.csv -o scored.csv --sandbox --overwrite --rate 12/s --progress json",
        );
        let done = run.args(args).done();
        done.exits(0);
        let lines = done
            .stderr
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines
            .filter_map(|line| line["now"]["percent"].as_f64())
            .collect()
    };
    for part in [["--limit", "60"], ["--sample", "2%"]] {
        let percents = run(&part);
        assert!(
            percents.iter().all(|percent| *percent <= 100.0),
            "{percents:?}"
        );
        assert!(percents[0] > 10.0, "{part:?} {percents:?}");
    }
}
