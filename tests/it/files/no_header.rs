//! Files without a header: the first row is a user, whose data no message may show.

use super::wrong_files::refused;
use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users::{self, Verdict};

#[test]
fn the_first_row_of_a_file_without_a_header_is_never_printed() {
    let row = "17,Jane Doe,jane@example.com,+15550100199,192.0.2.1,Mozilla/5.0";
    for delimiter in [",", ";", "~"] {
        let csv = format!("{row}\n").repeat(3).replace(',', delimiter);
        let done = refused("users.csv", csv.as_bytes(), []);
        done.says("row 1 of `users.csv` does not look like a header")
            .says("`--no-header`");
        for value in ["Jane", "Doe", "example", "0100199", "192.0"] {
            done.silent_about(value);
        }
        let done = refused("users.csv", csv.as_bytes(), ["--map", "email=3"]);
        done.says("does not look like a header")
            .silent_about("example");
    }
    // A phone number is enough, even without its country code; a date may be the name of a column.
    let done = refused("users.csv", b"Jane Doe,Berlin,030/1234 567\n", []);
    done.says("column 3 holds what looks like a value for `phone`")
        .silent_about("Jane");
    let done = refused("users.csv", b"Name,Email,2026-11-22\n", []);
    done.says("columns: Name, Email, 2026-11-22");
    // The column that was recognised is named.
    let done = refused("users.csv", row.as_bytes(), []);
    done.says("column 3 holds what looks like a value for `email`")
        .says("`--map email=3`");
}

#[test]
fn a_first_row_with_hardly_a_known_name_is_not_printed() {
    let server = Server::good();
    for (csv, args, told) in [
        (
            "Anna Lee,Berlin,secret diagnosis\n",
            "",
            "3 columns (not shown: ",
        ),
        // Not even as what may be meant.
        (
            "Anna Lee,Berlin,secret\n",
            "--map name=Berln",
            "add `--no-header` and give columns by number, as in `--map name=1`",
        ),
        // Names that are only like known ones may be a user's.
        (
            "Emil,Nahme,Berlin,Musterweg 7\n",
            "",
            "4 columns (not shown: if there is no header, the first row is a user)",
        ),
        // One name that is known may be a value by chance, and two are a header.
        (
            "email,Anna,secret\n",
            "",
            "3 columns (not shown: if there is no header, the first row is a user)",
        ),
        ("email~Anna~secret\n", "", "1 column (not shown: "),
        ("email,phone,secret\n", "", "columns: email, phone, secret"),
    ] {
        let place = Place::with("users.csv", csv);
        let args = format!("users.csv -o scored.csv {args}");
        let done = place.run(&server, args.as_str()).done();
        done.exits(2).says(told);
        for value in ["Anna", "Berlin", "secret", "Emil", "Nahme", "Musterweg"] {
            if !told.contains("columns: ") {
                done.silent_about(value);
            }
        }
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn without_a_header_columns_are_named_by_number_and_no_row_is_lost() {
    let server = Server::good();
    let csv = "u,A,a@x.org,::1\n\"v,w\",B,b@x.org,::1\nu,C,c@x.org,nowhere\nu,D\n";
    let place = Place::with("users.csv", csv);
    let numbers = "--no-header --map name=2 --map email=3 --map ip=4 --map user_agent=1";
    let program = place.scoring(&server);
    let done = program.args(numbers.split(' ')).done();
    done.exits(1).says("name ← `2`, email ← `3`");
    let (a, b) = (Verdict::of("A").cells(','), Verdict::of("B").cells(','));
    let expected =
        format!("u,A,a@x.org,::1{a}\n\"v,w\",B,b@x.org,::1{b}\nu,C,c@x.org,nowhere,,,\nu,D,,,\n");
    assert_eq!(place.text("scored.csv"), expected);
    let rejects = place.text("scored.rejects.csv");
    assert!(rejects.starts_with("3,invalid_ip,line 3: "), "{rejects}");
    assert!(
        rejects.contains("\n4,ragged,line 4: 2 cells where the first row has 4,u,D\n"),
        "{rejects}"
    );
    let sent = |i: usize| server.requests()[i].json();
    assert_eq!(
        (&sent(0)["name"], &sent(1)["user_agent"]),
        (&"A".into(), &"v,w".into())
    );

    let done = place.score(&server, "--no-header --map email=5 --overwrite");
    done.exits(2)
        .says("`5` for `--map email=…`")
        .says("columns: 1, 2, 3, 4");
    let place = Place::with("users.jsonl", users::object("A"));
    let done = place.run(&server, "users.jsonl --no-header").done();
    done.exits(2).says("`--no-header` is for CSV and TSV");
}
