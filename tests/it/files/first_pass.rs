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
    night(&place, &server, "").exits(0);
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
    for broken in [
        String::new(),
        format!("{header}\n"),
        whole[..half].to_owned(),
        open_quote,
        // In the middle of a row, or still being written.
        whole[..whole.rfind(',').unwrap()].to_owned(),
        without(3),
        whole.replace("User", "Us\u{e9}r"),
    ] {
        place.write("users.csv", &broken);
        for more in ["", "--quiet", "--accept-failures 100%"] {
            night(&place, &server, more).exits(2);
        }
        assert_eq!(server.calls(), 100, "{broken}");
        assert_eq!(place.text("scored.csv"), scored);
    }
    // Fewer users, and some new ones, are what happens in a day.
    place.write("users.csv", with_phones(110));
    night(&place, &server, "").exits(0);
    place.write("users.csv", with_phones(105));
    night(&place, &server, "").exits(0);
    assert_eq!(server.calls(), 110);
}

#[test]
fn an_empty_export_replaces_no_output_unless_min_rows_allows_it() {
    let (csv, server) = (users::csv(5), Server::good());
    let place = Place::with("users.csv", &csv);
    place.score(&server, "").exits(0);
    // A sample that has no row does not make an input empty.
    let sample = "--overwrite --sample 0.0001%";
    place.score(&server, sample).exits(0);
    place.score(&server, "").exits(0);
    place.write("users.csv", users::csv(0));
    place.score(&server, "--overwrite").exits(2);
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
    for (rows, more) in [(20, "--min-rows 90%"), (0, "--min-rows 90%"), (0, "")] {
        place.write("a.csv", users::csv(rows));
        night(more)
            .exits(2)
            .says(&format!("`a.csv` has {rows} rows"));
        assert_eq!((server.calls(), outputs()), (100, scored.clone()));
    }
    night("--min-rows 0").exits(0);
    assert_eq!(place.text("out/a.csv"), users::scored(&users::csv(0)));
}

#[test]
fn only_keep_going_sends_the_rows_before_a_break_in_the_file() {
    let (csv, server) = (users::csv(600), Server::good());
    let place = Place::with(
        "users.csv",
        csv + "601,\"User 601,a@example.com,192.0.2.1,u\n",
    );
    place.score(&server, "").exits(2);
    assert_eq!(server.calls(), 0);
    let done = place.score(&server, "--keep-going");
    done.exits(2);
    assert!(server.calls() > 0);
}
