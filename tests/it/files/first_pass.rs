//! What is found before anything is paid: each of these exports is refused before the first call, and last night's output stays.

use crate::support::process::{Done, Place};
use crate::support::server::Server;
use crate::support::users;

/// Users with a phone number.
fn with_phones(users: usize) -> String {
    let row = |n| format!("{n},User {n},user{n}@example.com,+1202555{n:04},192.0.2.1,curl/8\n");
    let rows: String = (1..=users).map(row).collect();
    format!("id,name,email,phone,ip,user_agent\n{rows}")
}

/// A night whose output is replaced by the next, with the guards of the shipped settings.
fn night(place: &Place, server: &Server, more: &str) -> Done {
    let run = place.scoring(server);
    let run = run.args("--overwrite --min-rows 90% --max-new 20% --price 0.004");
    run.args(more).done()
}

#[test]
fn a_broken_export_costs_no_call_and_last_nights_output_stays() {
    let (whole, server) = (with_phones(100), Server::good());
    let place = Place::with("users.csv", &whole);
    let done = night(&place, &server, "");
    done.exits(0)
        .says("100 rows: 100 calls to make (about 0.40)");
    let scored = place.text("scored.csv");
    let without = |column: usize| {
        let cells = |line: &str| {
            let cells: Vec<_> = line.split(',').collect();
            [&cells[..column], &cells[column + 1..]].concat().join(",") + "\n"
        };
        whole.lines().map(cells).collect::<String>()
    };
    let (header, half) = (
        whole.lines().next().unwrap(),
        whole.find("\n51,").unwrap() + 1,
    );
    let open_quote =
        whole[..half].to_owned() + "51,\"User 51,user51@example.com,,192.0.2.1,curl/8\n";
    for (broken, words) in [
        (String::new(), "has 0 rows"),
        (format!("{header}\n"), "has 0 rows"),
        (
            whole[..half].to_owned(),
            "fewer than 90% of the 100 in `scored.csv`",
        ),
        (open_quote, "is never closed"),
        // In the middle of a row, or still being written.
        (
            whole[..whole.rfind(',').unwrap()].to_owned(),
            "the last line of `users.csv` is cut",
        ),
        (
            without(3),
            "100 of the 100 rows of `users.csv` are new to the ledger",
        ),
        (whole.replace("User", "Us\u{e9}r"), "are new to the ledger"),
    ] {
        place.write("users.csv", &broken);
        for more in ["", "--quiet", "--accept-failures 100%"] {
            night(&place, &server, more).exits(2).says(words);
        }
        assert_eq!(server.calls(), 100, "{words}");
        assert_eq!(place.text("scored.csv"), scored, "{words}");
    }
    // Fewer users, and some new ones, are what happens in a day.
    place.write("users.csv", with_phones(110));
    let done = night(&place, &server, "");
    done.exits(0)
        .says("110 rows: 10 calls to make (about 0.04), 100 paid for already in `rescore.ledger`");
    place.write("users.csv", with_phones(105));
    night(&place, &server, "").exits(0);
    assert_eq!(server.calls(), 110);
}

#[test]
fn without_settings_an_empty_export_replaces_no_output_unless_that_is_said() {
    let (csv, server) = (users::csv(5), Server::good());
    let place = Place::with("users.csv", &csv);
    place.score(&server, "").exits(0);
    // A sample that has no row does not make an input empty.
    let sample = "--overwrite --sample 0.0001%";
    place.score(&server, sample).exits(0);
    place.score(&server, "").exits(0);
    place.write("users.csv", users::csv(0));
    let done = place.score(&server, "--overwrite");
    done.exits(2)
        .says("would replace the 5 in `scored.csv`")
        .says("--min-rows 0");
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    place.score(&server, "--overwrite --min-rows 0").exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(0)));
    assert_eq!(server.calls(), 5);
}

#[test]
fn each_of_several_inputs_must_have_the_rows_of_the_output_that_it_replaces() {
    let (place, server) = (Place::with("a.csv", users::csv(40)), Server::good());
    place.write("b.csv", users::csv(100));
    let night = |more: &str| {
        let run = place.run(&server, "a.csv b.csv --output-dir out --overwrite");
        run.args(more).done()
    };
    night("--min-rows 90%").exits(0);
    let outputs = || ["out/a.csv", "out/b.csv"].map(|name| place.text(name));
    let scored = outputs();
    // Together they have more rows than the night before.
    place.write("b.csv", users::csv(180));
    for (rows, more, words) in [
        (
            20,
            "--min-rows 90%",
            "fewer than 90% of the 40 in `out/a.csv`",
        ),
        (
            0,
            "--min-rows 90%",
            "fewer than 90% of the 40 in `out/a.csv`",
        ),
        (0, "", "and would replace the 40 in `out/a.csv`"),
    ] {
        place.write("a.csv", users::csv(rows));
        let done = night(more);
        done.exits(2)
            .says(&format!("`a.csv` has {rows} rows, {words}"));
        assert_eq!((server.calls(), outputs()), (100, scored.clone()));
    }
    night("--min-rows 0").exits(0);
    assert_eq!(place.text("out/a.csv"), users::scored(&users::csv(0)));
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_is_sent_up_to_there_only_if_that_is_said() {
    let (csv, server) = (users::csv(600), Server::good());
    let place = Place::with(
        "users.csv",
        csv + "601,\"User 601,a@example.com,192.0.2.1,u\n",
    );
    place.score(&server, "").exits(2).says("is never closed");
    assert_eq!(server.calls(), 0);
    let done = place.score(&server, "--keep-going");
    done.exits(2).says("is never closed");
    assert!(server.calls() > 0);
}

#[test]
fn what_is_odd_about_many_rows_is_said_before_the_first_call_and_refuses_nothing() {
    let row = |n: usize| {
        let (name, ip) = match n {
            7 => ("#REF!".to_owned(), "203.0.113.9"),
            8 => ("J\u{c3}\u{bc}rgen".to_owned(), "203.0.113.9"),
            9 => ("Jo\u{fffd}o".to_owned(), "203.0.113.9"),
            _ if n.is_multiple_of(4) => (format!("User {n}"), "203.0.113.9"),
            _ => (format!("User {n}"), "10.0.0.7"),
        };
        format!("{n},{name},user{n}@example.com,{ip},Agent/{n}.0 (X11)\n")
    };
    let rows: String = (1..=1_200).map(row).collect();
    let place = Place::with("users.csv", format!("id,name,email,ip,user_agent\n{rows}"));
    let server = Server::good();
    let said = place.score(&server, "--max-calls 1 -c 1");
    said.exits(5);
    let check = place.rescore("check users.csv --json").done();
    let quality = check.exits(0).json()["files"][0]["quality"].clone();
    for (kind, words) in [
        ("private_address", "often `10.0.0.7` (row 1, "),
        ("null_word", "have a word such as `NULL`"),
        ("encoded_twice", "encoded twice"),
        ("lost_character", "U+FFFD"),
    ] {
        said.says(words);
        let found = quality.as_array().unwrap().iter();
        assert!(
            found.clone().any(|it| it["kind"] == kind),
            "{kind}: {quality}"
        );
    }
    // Of a person nothing is shown, and a nightly job is not told each night.
    said.silent_about("user8@");
    place
        .score(&server, "--quiet --max-calls 2 -c 1")
        .silent_about("10.0.0.7");
}
