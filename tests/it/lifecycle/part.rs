//! A part of a file first: its output has these rows, and the whole file then pays only for the other users.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::time::Duration;

use crate::support::process::Place;
use crate::support::server::{Request, Server, good, status};
use crate::support::users;

/// What a part says that left rows behind.
const CONTINUES: &str = "without `--limit` or `--sample` pays for none of these rows again";

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
    let row = |user| format!("{user},User {user},u@example.com,192.0.2.1,curl/8\n");
    let users = (1..=5).chain([1, 2]).chain(6..=20);
    let csv = "id,name,email,ip,user_agent\n".to_owned() + &users.map(row).collect::<String>();
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    // A part that is stopped continues like any run.
    for (limit, more, taken, calls, code) in [
        ("3", "", 3, 3, 0),
        ("7", "", 7, 5, 0),
        ("12", "--max-calls 7", 9, 7, 5),
        ("12", "--max-calls 10", 12, 10, 0),
    ] {
        let part = format!("--limit {limit} --summary s.json -c 1 {more}");
        place.score(&server, &*part).exits(code);
        assert_eq!(server.calls(), calls, "{part}");
        if code == 0 {
            let scored = users::scored(&rows(&csv, 1..=taken));
            assert_eq!(place.text("scored.csv"), scored);
        }
        let summary = place.json("s.json");
        assert_eq!(summary["part"]["limit"].to_string(), limit);
    }
    let done = place.score(&server, "");
    done.exits(0);
    assert_eq!(server.calls(), 20);
    assert!(server.requests().iter().all(|request| request.attempt == 1));
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    // It is finished: the next one is another run.
    for more in ["", "--limit 3"] {
        place.score(&server, more).exits(2).says("already exists");
    }
    place.score(&server, "--limit 3 --overwrite").exits(0);
    assert_eq!(place.text("scored.csv").lines().count(), 4);
    assert_eq!(server.calls(), 20);
}

#[test]
fn a_sample_is_the_same_whatever_the_ledger_and_the_order_and_equal_rows_are_all_in_it_or_none() {
    let csv = users::csv(400);
    let twice = csv.clone() + csv.split_once('\n').unwrap().1;
    let sample = |csv: &str, share: &str| {
        let (place, server) = (Place::with("users.csv", csv), Server::good());
        let done = place.score(&server, ["--sample", share]);
        done.exits(0)
            .says(&format!("wrote scored.csv: a sample of {share}\n"));
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
    let mirrored = sample(&backwards, "10%");
    let mirrored: Vec<_> = mirrored.iter().rev().map(|row| 401 - row).collect();
    assert_eq!(mirrored, one);
}

#[test]
fn a_sample_then_its_first_rows_then_the_whole_file_pays_for_each_user_once() {
    let csv = users::csv(300);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place.score(&server, "--sample 10%").exits(0);
    assert_eq!(server.calls(), numbers_of(&place, &csv).len());
    let done = place.score(&server, "--sample 20% --limit 5");
    done.exits(0)
        .says("the first 5 rows of a sample of 20% of users.csv")
        .says(CONTINUES);
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
    let run = |args: &str| place.scoring(&server).args("-c 4").args(args);
    run("--limit 50").exits(0).says(CONTINUES);
    assert_eq!(server.calls(), 50);
    for calls in [90, 130] {
        let killed = run("").start().kill_when(|| server.calls() >= calls);
        killed.check(killed.code().is_none(), "it was killed");
        assert_eq!(place.text("scored.csv"), users::scored(&rows(&csv, 1..=50)));
    }
    run("").exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    let again = server.calls() - 200;
    // At most twice the calls in flight for each kill.
    assert!(again <= 2 * 2 * 4, "{again}");
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
        match row % 7 {
            0 => status(422),
            _ => good(request),
        }
    });
    let rejected = || -> Vec<(usize, String)> {
        let rejects = place.text("scored.rejects.csv");
        let row = |line: &str| {
            let mut cells = line.split(',');
            let row = cells.next().unwrap().parse().unwrap();
            (row, cells.next().unwrap().to_owned())
        };
        rejects.lines().skip(1).map(row).collect()
    };
    place.score(&server, "--sample 30%").exits(1);
    let (calls, of_sample) = (server.calls(), rejected());
    assert!(of_sample.len() > 5, "{of_sample:?}");
    // None is sent again, whatever became of it.
    place.score(&server, "--sample 30%").exits(1);
    assert_eq!(server.calls(), calls);
    place.score(&server, "").exits(1);
    assert_eq!(server.calls(), 180);
    let of_all = rejected();
    assert!(of_sample.iter().all(|row| of_all.contains(row)));
    for (row, reason) in of_all {
        assert!(row % 7 == 0 || row % 10 == 0, "{row}");
        let expected = match row % 10 {
            0 => "missing_name",
            _ => "refused",
        };
        assert_eq!(reason, expected, "{row}");
    }
    // Now it is finished: what failed can be retried.
    place.score(&server, "--retry-failed --keep-going").exits(1);
    assert_eq!(server.calls(), 180 + 200 / 7 - 200 / 70);
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
fn with_a_limit_a_pipe_that_stays_open_and_the_rest_of_a_file_are_not_waited_for() {
    let (place, server) = (Place::new(), Server::good());
    let csv = users::csv(5);
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(csv.as_bytes()).unwrap();
    let run = place.run(&server, "- --limit 4");
    let done = run.stdin_from(reader).exits(0);
    assert_eq!(done.printed(), users::scored(&rows(&csv, 1..=4)));
    drop(writer);
    // What is wrong with the rest of a file is not found, as it is not read.
    let broken = csv + &"x".repeat(2_000_000) + "\n\0";
    place.write("users.csv", broken);
    place.score(&server, "--limit 5").exits(0);
}

#[test]
fn objects_and_blank_lines_of_a_part_stay_as_they_are() {
    let scored = |name: &str| {
        let (object, members) = (users::object(name), users::Verdict::of(name).members());
        format!("{}{members}}}", object.strip_suffix('}').unwrap())
    };
    let [a, b, c] = ["a", "b", "c"].map(users::object);
    let place = Place::with("users.jsonl", format!("\n{a}\n\r\n{b}\r\n{c}\n\n\n"));
    let server = Server::good();
    let run = |args: &str| {
        let run = place.run(&server, "users.jsonl -o scored.jsonl");
        run.args(args).exits(0);
        place.text("scored.jsonl")
    };
    let two = format!("\n{}\n\r\n{}\r\n", scored("a"), scored("b"));
    let three = format!("{two}{}\n", scored("c"));
    assert_eq!(run("--limit 2"), two);
    // Nobody has looked whether blank lines or rows follow.
    assert_eq!(run("--limit 3"), three);
    // The end was reached, so this was the whole file.
    assert_eq!(run("--limit 4"), format!("{three}\n\n"));
    assert_eq!(run("--sample 100% --overwrite"), format!("{three}\n\n"));
}

#[test]
fn the_output_of_a_part_is_replaced_only_by_what_continues_it() {
    let csv = users::csv(9);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place.write("others.csv", users::csv(4));
    place.score(&server, "--limit 3").exits(0);
    let others = place.run(&server, "others.csv -o scored.csv").exits(2);
    others.says("already exists");
    place.write("scored.csv", "mine");
    let done = place.score(&server, "");
    done.exits(2).says("is not as the unfinished run left it");
    place.score(&server, "--overwrite").exits(0);
    assert_eq!(server.calls(), 9);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    // From a pipe, the refusal comes before the rows; with `--overwrite` it costs nothing either.
    fs::remove_file(place.path("scored.csv")).unwrap();
    for (args, code) in [("--limit 3", 0), ("", 2), ("--overwrite", 0)] {
        let run = place.run(&server, "-o scored.csv").args(args);
        run.stdin(csv.as_bytes()).exits(code);
    }
    assert_eq!(server.calls(), 9);
}
