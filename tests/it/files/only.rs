//! `--only`: rows that it does not choose cost nothing and stay as they are, down to the byte.

use super::HEADER;
use crate::support::process::Place;
use crate::support::server::{Request, Server, good_body, ok};
use crate::support::users::{self, COLUMNS, EMPTY, Verdict};

/// The decisions in a scored file, row by row.
fn decisions(csv: &str) -> Vec<&str> {
    let rows = csv.lines().skip(1);
    rows.map(|row| row.rsplit(',').next().unwrap()).collect()
}

#[test]
fn a_second_stage_costs_what_is_in_review_and_leaves_all_other_rows_as_they_are() {
    let place = Place::with("users.csv", users::csv(300));
    let server = Server::start(|request| {
        // The second look at a user has another result.
        let name = request.name();
        let again = if request.json()["advanced"] == true {
            "!"
        } else {
            ""
        };
        ok(&good_body(&format!("{name}{again}")))
    });
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 300);
    let first = place.text("scored.csv");
    let in_review = decisions(&first)
        .iter()
        .filter(|it| **it == "review")
        .count();
    let second = "scored.csv --advanced --only decision=review";
    let checked = place.rescore(&*format!("check {second} --json")).done();
    let rows = &checked.exits(0).json()["rows"];
    assert_eq!(
        (&rows["passed"], &rows["sendable"]),
        (&(300 - in_review).into(), &in_review.into())
    );
    assert_eq!(checked.json()["calls"], in_review);

    let done = place
        .run(&server, &*format!("{second} -o final.csv --summary s.json"))
        .exits(0);
    done.says("only rows where `decision` is `review`");
    assert_eq!(server.calls(), 300 + in_review);
    let summary = place.json("s.json");
    assert_eq!(summary["passed"], 300 - in_review);
    assert_eq!(summary["rows"]["written"], 300);
    let expected: String = { first.lines() }
        .map(|row| match row.rsplit_once(',') {
            Some((_, "review")) => {
                let name = row.split(',').nth(1).unwrap();
                let before = Verdict::of(name).cells(',');
                let now = Verdict::of(&format!("{name}!")).cells(',');
                row.replace(&before, &now) + "\n"
            }
            _ => format!("{row}\n"),
        })
        .collect();
    assert_eq!(place.text("final.csv"), expected);
}

#[test]
fn rows_that_are_not_chosen_may_be_anything_and_get_empty_cells() {
    // Invalid users, blank lines, quotes and a comma in a value; the torn row cannot be judged, and fails.
    let csv = format!(
        "{HEADER},land\r\n\
        A,a@x.org,::1,u,\"Bonaire, Saba\"\r\n\
        \r\n\
        ,,,,DE\r\n\
        B,b@x.org,::1,u\r\n\
        C,not an address,nowhere,,\"DE\"\r\n\
        D,d@x.org,::1,u,"
    );
    let place = Place::with("users.csv", &csv);
    let server = Server::good();
    let only = [
        "--only",
        "land=\"Bonaire, Saba\",",
        "--only",
        "land!=FR,IT",
        "--min-rows",
        "3",
        "--max-invalid",
    ];
    let score = |most| place.score(&server, only.into_iter().chain([most]));
    // The torn row is one of the three that are sent.
    score("33%").exits(2);
    score("34%")
        .exits(1)
        .says("2 rows passed on without a call");
    assert_eq!(server.calls(), 2);
    let [a, d] = ["A", "D"].map(|name| Verdict::of(name).cells(','));
    let expected = csv
        .replace("land\r\n", &format!("land{COLUMNS}\r\n"))
        .replace("Saba\"\r\n", &format!("Saba\"{a}\r\n"))
        .replace("DE\r\n", &format!("DE{EMPTY}\r\n"))
        .replace(
            "B,b@x.org,::1,u\r\n",
            &format!("B,b@x.org,::1,u{EMPTY}\r\n"),
        )
        .replace("\"DE\"\r\n", &format!("\"DE\"{EMPTY}\r\n"))
        + &d;
    assert_eq!(place.text("scored.csv"), expected);
    assert_eq!(place.text("scored.rejects.csv").lines().count(), 2);
}

#[test]
fn members_are_chosen_by_their_text_also_nested_ones_and_missing_ones_are_empty() {
    let line =
        |name: &str, rest: &str| users::object(name).replacen('{', &format!("{{{rest}"), 1) + "\n";
    let jsonl = [
        line("A", r#""at":{"land":"DE"},"#),
        line("B", r#""at":{"land":"FR"},"#),
        line("C", r#""at":{"land":null},"#),
        line("D", ""),
        line("E", r#""at":{"land":7},"#),
    ];
    let place = Place::with("users.jsonl", jsonl.concat());
    for (only, names) in [
        ("/at/land=DE", "A"),
        ("/at/land!=DE,7", "B C D"),
        ("/at/land=", "C D"),
        ("/at/land=7", "E"),
    ] {
        let server = Server::good();
        let args = [
            "users.jsonl",
            "-o",
            "scored.jsonl",
            "--overwrite",
            "--fresh",
            "--only",
        ];
        place.run(&server, args).arg(only).exits(0);
        let mut sent: Vec<_> = server.requests().iter().map(Request::name).collect();
        sent.sort();
        assert_eq!(sent.join(" "), names, "{only}");
        let back = place.text("scored.jsonl");
        for (line, scored) in jsonl.iter().zip(back.lines()) {
            let own = line.trim_end().strip_suffix('}').unwrap();
            assert!(scored.starts_with(own), "{scored}");
        }
        assert_eq!(
            back.matches(users::NULLS).count(),
            5 - names.split(' ').count()
        );
    }
}

#[test]
fn a_limit_counts_sent_rows_and_a_choice_without_rows_or_column_is_named() {
    let place = Place::with("users.csv", users::csv(10));
    let server = Server::good();
    place
        .score(&server, ["--only", "id=3,5,7", "--limit", "2"])
        .exits(0);
    assert_eq!(server.calls(), 2);
    assert_eq!(place.text("scored.csv").lines().count(), 1 + 5);
    let none = place.score(&server, "--only name=nobody --overwrite");
    none.exits(0);
    // Of several files, one may well have no such row.
    place.write("a.csv", users::named(["Ann"]));
    let none = "`--only` chooses none of the 11 rows";
    for name in ["Ann", "nobody"] {
        let files = format!("users.csv a.csv --only name={name}");
        let checked = place.rescore(&*format!("check {files}")).done();
        let done = place.run(&server, &*format!("{files} --output-dir {name}"));
        for done in [checked, done.done()] {
            match name {
                "Ann" => done.exits(0).silent_about("chooses none"),
                _ => done.exits(0).says(none),
            };
        }
    }
    let users = users::csv(10);
    let expected: String = { users.lines().zip(1..) }
        .map(|(row, line)| format!("{row}{}\n", if line == 1 { COLUMNS } else { EMPTY }))
        .collect();
    assert_eq!(place.text("scored.csv"), expected);
    let unknown = place.score(&server, "--only emial=nobody --overwrite");
    unknown.exits(2);
    place.score(&server, "--only name --overwrite").exits(2);
    assert_eq!(server.calls(), 3);
}

#[test]
fn the_choice_holds_for_each_of_several_files_and_after_a_stop() {
    let place = Place::new();
    place.write("a.csv", users::csv(20));
    place.write("b.csv", users::named(["User 21", "User 22"]));
    place.write("c.csv", format!("{HEADER}\nA,a@x.org,::1,u\n"));
    let server = Server::good();
    let all = "a.csv b.csv c.csv --output-dir scored --only id=1,2,3,4";
    place
        .run(&server, &*format!("{all} --max-calls 3"))
        .exits(5);
    place
        .run(&server, &*format!("{all} --summary s.json"))
        .exits(2);
    assert_eq!(server.calls(), 6);
    let files = &place.json("s.json")["files"];
    assert_eq!(
        (&files[0]["passed"], &files[1]["passed"]),
        (&16.into(), &0.into())
    );
    let a = users::csv(20);
    let four = ["User 1", "User 2", "User 3", "User 4"];
    assert_eq!(
        place.text("scored/a.csv"),
        users::scored_without(&a, |name| !four.contains(&name))
    );
}
