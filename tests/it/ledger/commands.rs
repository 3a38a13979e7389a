//! `rescore ledger`: show what a ledger holds, prune old answers, and forget people.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::docs::schema::assert_valid;
use crate::support::ledger_file;
use crate::support::process::{Done, KEY, Place};
use crate::support::server::{Request, Server};
use crate::support::users;

const LEDGER: &str = "rescore.ledger";

/// A ledger with an answer for each of five users.
fn kept(server: &Server, flags: &[&str]) -> Place {
    let place = Place::with("users.csv", users::csv(5));
    run(&place, server, flags).exits(0);
    place
}

/// The address and the service id are in variables, so that flags can give others.
fn run(place: &Place, server: &Server, flags: &[&str]) -> Done {
    let program = place
        .rescore("run users.csv -o scored.csv --overwrite")
        .env("RESCORE_API_KEY", KEY)
        .env("RESCORE_BASE_URL", server.url())
        .env("RESCORE_SERVICE_ID", "test");
    program.args(flags).done()
}

fn ledger(place: &Place, words: &[&str]) -> Done {
    place.rescore("ledger").args(words).done()
}

/// Every answer as it is stored.
fn sealed(place: &Place) -> Vec<Vec<u8>> {
    let ledger = Connection::open(place.path(LEDGER)).unwrap();
    let mut query = ledger.prepare("SELECT sealed FROM answers").unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

/// How many of these answers are somewhere in the ledger's files.
fn in_files(place: &Place, sealed: &[Vec<u8>]) -> usize {
    let files = place.names();
    let files = files.iter().filter(|name| name.starts_with(LEDGER));
    let bytes: Vec<_> = files.flat_map(|name| place.read(name)).collect();
    let found = |sealed: &&Vec<u8>| bytes.windows(sealed.len()).any(|part| part == &sealed[..]);
    sealed.iter().filter(found).count()
}

#[test]
fn the_users_of_a_file_are_forgotten_leave_no_trace_and_are_sent_again() {
    let server = Server::good();
    let place = kept(&server, &[]);
    let before = sealed(&place);
    assert_eq!(in_files(&place, &before), 5);
    let forget = |people: &str, words: &str| {
        place.write("people.csv", people);
        let done = place.rescore("ledger forget people.csv").args(words).done();
        done.silent_about("User ").silent_about("@example");
        done
    };
    let all = users::csv(7);
    let lines: Vec<_> = all.lines().collect();
    let some = [
        lines[0],
        lines[2],
        lines[4],
        lines[7],
        "8,User 8,,192.0.2.8,u",
    ]
    .join("\n");
    forget(&some, "")
        .exits(0)
        .prints("forgot 2 answers")
        .prints("1 row without a valid");
    assert_eq!(in_files(&place, &before), 3);
    forget(&some, "").exits(1);
    run(&place, &server, &[]).exits(0);
    let mut asked: Vec<_> = server.requests()[5..].iter().map(Request::name).collect();
    asked.sort();
    assert_eq!(asked, ["User 2", "User 4"]);

    // Columns have names as in `run`. Without a header the first user is not taken for one.
    let (header, rows) = all.split_once('\n').unwrap();
    let renamed = format!("{}\n{rows}", header.replace("ip", "last_seen"));
    forget(&renamed, "--map ip=last_seen")
        .exits(0)
        .prints("forgot 5 answers");
    run(&place, &server, &[]).exits(0);
    forget(rows, "").exits(2).says("--no-header");
    let numbers = "--no-header --map name=2 --map email=3 --map ip=4 --map user_agent=5";
    forget(rows, numbers).exits(0).prints("forgot 5 answers ");
    // A file that breaks off changes nothing.
    run(&place, &server, &[]).exits(0);
    let before = place.read(LEDGER);
    forget(&format!("{all}9,\"never closed"), "").exits(2);
    assert_eq!(place.read(LEDGER), before);
}

#[test]
fn every_request_about_a_user_is_forgotten() {
    let server = Server::good();
    let place = kept(&server, &["--service-id", "other"]);
    for flags in [
        &["--vpn-check"][..],
        &["--advanced"],
        &["--vpn-check", "--advanced"],
        &["--plan", "free", "--free-base-url", &server.url()],
    ] {
        run(&place, &server, flags).exits(0);
    }
    let before = sealed(&place);
    let user: String = users::csv(3).split_inclusive('\n').take(2).collect();
    place.write("people.csv", user);
    let done = ledger(&place, &["forget", "people.csv"]);
    done.exits(0).prints("forgot 5 answers");
    assert_eq!(in_files(&place, &before), 20);
}

#[test]
fn prune_removes_older_answers_and_those_of_the_last_day_only_with_yes() {
    let server = Server::good();
    let place = kept(&server, &[]);
    let prune = |options: &str| place.rescore("ledger prune").args(options).done();
    prune("--older-than 30d")
        .exits(0)
        .prints("removed 0 answers");
    for refused in [
        "--older-than 1s",
        "--older-than 0s",
        "--older-than soon",
        "",
    ] {
        prune(refused).exits(2);
    }
    assert_eq!(sealed(&place).len(), 5);
    ledger_file::age(&place.path(LEDGER), &server, 31 * 86_400_000);
    place.write("users.csv", users::csv(7));
    run(&place, &server, &[]).exits(0);
    let before = sealed(&place);
    prune("rescore.ledger --older-than 30d")
        .exits(0)
        .prints("removed 5 answers");
    assert_eq!(in_files(&place, &before), 2);
    run(&place, &server, &[]).exits(0);
    assert_eq!(server.calls(), 7 + 5);
    ledger_file::age(&place.path(LEDGER), &server, 2_000);
    prune("--older-than 1s --yes")
        .exits(0)
        .prints("removed 7 answers");
    assert_eq!(sealed(&place).len(), 0);
}

#[test]
fn a_list_names_people_by_any_of_their_fields() {
    let server = Server::good();
    let place = kept(&server, &[]);
    let forget = |list: &str, options: &str| {
        place.write("people.csv", list);
        let forget = place.rescore("ledger forget people.csv --from users.csv");
        let done = forget.args(options).done();
        done.silent_about("User ").silent_about("@example");
        done
    };
    for (list, options, forgotten) in [
        (
            "email\nuser2@example.com\nnobody@example.com\n",
            "",
            "1 answer ",
        ),
        // Sanitised as in a run, and each row by the fields that it has.
        (
            "name,ip\n User 1 ,\n,192.0.2.3\nUser 4,192.0.2.3\n",
            "",
            "2 answers",
        ),
        ("Kunde\nUser 4\n", "--map name=Kunde", ""),
        ("name,id\nUser 4,7\n", "--set user_agent=other", ""),
    ] {
        let done = forget(list, options);
        match (options, forgotten) {
            ("", _) => done.exits(0).prints(&format!("forgot {forgotten}")),
            // There is no such column in the users' file.
            ("--map name=Kunde", _) => done.exits(2).says("`Kunde`"),
            _ => done.exits(1),
        };
    }
    // One that names nobody is not taken for one that names all.
    for list in [
        "email\n\"\"\n",
        "id\n4\n",
        "email,phone\nuser4@example.com,12\n",
    ] {
        forget(list, "--yes").exits(2).says("no valid value");
    }
    place.write("renamed.csv", users::csv(5).replace("email", "mail_2"));
    let list = "email\nuser4@example.com\n";
    let options = "--from renamed.csv --map email=mail_2";
    place.write("people.csv", list);
    let done = place
        .rescore("ledger forget people.csv")
        .args(options)
        .exits(0);
    done.prints("forgot 1 answer");
    run(&place, &server, &[]).exits(0);
    let mut asked: Vec<_> = server.requests()[5..].iter().map(Request::name).collect();
    asked.sort();
    assert_eq!(asked, ["User 1", "User 2", "User 3", "User 4"]);
}

#[test]
fn removing_many_answers_needs_yes_and_names_their_cost() {
    let server = Server::good();
    let place = Place::with("users.csv", users::csv(30));
    run(&place, &server, &["--price", "0.004"]).exits(0);
    let before = sealed(&place);
    let people = |first: usize, last: usize| -> String {
        let all = users::csv(30);
        let (header, rows) = all.split_once('\n').unwrap();
        let rows: Vec<_> = rows.lines().collect();
        format!("{header}\n{}\n", rows[first - 1..last].join("\n"))
    };
    let forget = |first, last, options: &str| {
        place.write("people.csv", people(first, last));
        place
            .rescore("ledger forget people.csv")
            .args(options)
            .done()
    };
    let words = "11 of 30 answers in `rescore.ledger` would be removed, which cost 0.044";
    forget(1, 11, "").exits(2).says(words).says("--yes");
    assert_eq!(sealed(&place), before);
    forget(1, 10, "")
        .exits(0)
        .prints("which cost 0.04, 20 left");
    ledger_file::age(&place.path(LEDGER), &server, 31 * 86_400_000);
    let prune = |options: &str| {
        place
            .rescore("ledger prune --older-than 30d")
            .args(options)
            .done()
    };
    prune("").exits(2).says("20 of 20 answers").says("--yes");
    assert_eq!(sealed(&place).len(), 20);
    prune("--yes").exits(0).prints("removed 20 answers");
    assert_eq!(in_files(&place, &before), 0);
}

/// A ledger with answers for five users among many others, always the same one, changed by these statements: its place, what
/// is stored of the five, and their fingerprints.
fn large(statements: &str) -> (Place, Vec<Vec<u8>>, Vec<i64>) {
    let place = Place::with("users.csv", users::csv(5));
    place.write("old", ledger_file::version_6());
    place.rescore(["ledger", "copy", "old", LEDGER]).exits(0);
    fs::remove_file(place.path("old")).unwrap();
    let before = sealed(&place);
    let mut ledger = Connection::open(place.path(LEDGER)).unwrap();
    let unmerged = "DELETE FROM idx; UPDATE merged SET up_to = 0, replaced_up_to = 0";
    ledger.execute_batch(unmerged).unwrap();
    let filling = ledger.transaction().unwrap();
    for number in 1..20_000_i64 {
        let answer = "INSERT INTO answers (fp, account, at, price, sealed) VALUES (?1, 1, 1700000000000, 0, zeroblob(300))";
        let fingerprint = number.wrapping_mul(0x5851_f42d_4c95_7f2d);
        filling.execute(answer, [fingerprint]).unwrap();
    }
    filling.commit().unwrap();
    ledger.execute_batch(statements).unwrap();
    let mut query = ledger
        .prepare("SELECT fp FROM answers WHERE seq <= 5")
        .unwrap();
    let rows = query.query_map([], |row| row.get(0)).unwrap();
    let fingerprints = rows.map(Result::unwrap).collect();
    drop(query);
    (place, before, fingerprints)
}

/// Whether a number is in a file as SQLite writes it, in a row or as a key.
fn has_number(file: &[u8], number: i64) -> bool {
    let seven = |at: i64| 0x80 | u8::try_from((number >> (8 + 7 * at)) & 0x7f).unwrap();
    let key: Vec<_> = (0..8).rev().map(seven).collect();
    file.windows(8)
        .any(|part| part == number.to_be_bytes() || part == key)
}

#[test]
fn to_forget_somebody_leaves_no_trace_in_a_large_ledger_and_nothing_to_forget_writes_nothing() {
    let (place, before, fingerprints) = large(
        "INSERT INTO idx SELECT fp, seq FROM answers ORDER BY fp; UPDATE merged SET up_to = 20004",
    );
    // A killed run has left two of them and another one.
    let requests = [fingerprints[0], 9, fingerprints[4]];
    let claims: Vec<_> = requests.into_iter().flat_map(i64::to_be_bytes).collect();
    let leave = "INSERT INTO claims (run, start, at, fps) VALUES (7, 7, 1790000000000, ?)";
    let connection = Connection::open(place.path(LEDGER)).unwrap();
    connection.execute(leave, [&claims]).unwrap();
    drop(connection);
    let has_claims = |claims: &[u8]| {
        place
            .read(LEDGER)
            .windows(claims.len())
            .any(|it| it == claims)
    };
    assert!(has_claims(&claims));
    let done = ledger(&place, &["forget", "users.csv"]);
    done.exits(0)
        .prints("forgot 5 answers")
        .prints("19,999 left");
    let new = place.read(LEDGER);
    assert_eq!(in_files(&place, &before), 0);
    assert!(!fingerprints.iter().any(|it| has_number(&new, *it)));
    assert!(has_claims(&claims[8..16]));
    ledger(&place, &["forget", "users.csv"]).exits(1);
    ledger(&place, &["prune", "--older-than", "3600d"]).exits(0);
    assert!(place.read(LEDGER) == new);
}

#[test]
fn the_ledger_of_an_active_run_can_be_read_but_not_changed() {
    let (server, release) = Server::holding_if(|request| request.nth > 3);
    let place = Place::with("users.csv", users::csv(5));
    let running = place.run(&server, "users.csv -o scored.csv -c 1").start();
    server.wait_for_calls(4);
    let done = ledger(&place, &["stats"]);
    // The third may not be durable yet.
    done.exits(0).prints(" answers, ");
    let forget = || ledger(&place, &["forget", "users.csv"]);
    ledger(&place, &["prune", "--older-than", "1d"]).exits(75);
    forget().exits(75);
    running.signal("INT");
    running.wait_for_words("interrupted");
    drop(release);
    running.exits(130);
    // Once the run has ended, its answers can be forgotten like all others.
    forget().exits(0).prints("forgot 4 answers");
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 9);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(5)));
}

#[test]
fn stats_prints_what_a_ledger_holds_and_changes_nothing() {
    let server = Server::good();
    let place = kept(&server, &[]);
    run(&place, &server, &["--service-id", "other"]).exits(0);
    let before = place.read(LEDGER);
    let done = ledger(&place, &["stats"]);
    done.exits(0)
        .prints("rescore.ledger: ledger version 7, created ")
        .prints("\n10 answers, ");
    let account = format!("\n{}/v1/validate/user\n  5 answers, from ", server.url());
    assert_eq!(done.printed().matches(&account).count(), 2, "{done}");
    // Each time has its date, also today.
    let printed = done.printed();
    for words in ["created ", ", from ", " to "] {
        let (_, moment) = printed.split_once(words).unwrap();
        let date = moment.split(' ').next().unwrap();
        let is_date = date.len() == 10 && date.matches('-').count() == 2;
        assert!(is_date, "{words}{date}");
    }
    assert_eq!(place.read(LEDGER), before);
    assert_eq!(place.names(), [LEDGER, "scored.csv", "users.csv"]);
}

#[test]
fn what_was_spent_is_shown_by_month_and_day_also_where_answers_were_removed() {
    let server = Server::good();
    let place = kept(&server, &["--price", "0.004"]);
    run(&place, &server, &["--service-id", "other"]).exits(0);
    // The last day of October and the 27th of November; prices are in billionths, and 0 is none.
    let changes = Connection::open(place.path(LEDGER)).unwrap();
    changes
        .execute_batch(
            "UPDATE spending SET day = 20784;
            INSERT INTO spending VALUES (1, 20757, '4000000', 2000, 1990), (1, 20757, '5000000000', 3, 2);
            INSERT INTO spending VALUES (1, 20756, '4000000', 1, 0);
            INSERT INTO spending VALUES (2, 20783, '5000000', 2, 1), (2, 20785, '5000000', 1, 1);
            UPDATE accounts SET limits = '{\"rate\":9.5,\"in_flight\":null}', limits_at = 1000000000000 WHERE id = 1",
        )
        .unwrap();
    drop(changes);
    let stats = |words: &str| place.rescore("ledger stats").args(words).done();
    let spent = |words: &str| -> Vec<Value> {
        let object = stats(words).exits(0).json();
        assert_valid(&object);
        let accounts = object["accounts"].as_array().unwrap().clone();
        accounts
            .into_iter()
            .map(|it| it["spending"].clone())
            .collect()
    };
    let row = |period: &str, calls: u64, answers: u64, amounts: [Option<f64>; 3]| {
        let [price, cost, at_most] = amounts;
        json!({"period": period, "calls": calls, "answers": answers, "price": price, "cost": cost, "cost_at_most": at_most})
    };
    let november = [Some(0.004), Some(0.02), Some(0.02)];
    let months = [
        json!([
            row("2026-10", 2004, 1992, [None, Some(17.96), Some(23.004)]),
            row("2026-11", 5, 5, november),
        ]),
        // The price of some calls is not known.
        json!([row("2026-11", 8, 7, [None; 3])]),
    ];
    assert_eq!(spent("--json"), months);
    let days = spent("--json --by day");
    let second = [Some(0.005), Some(0.005), Some(0.01)];
    assert_eq!(
        days[0][0],
        row("2026-10-30", 1, 0, [Some(0.004), Some(0.0), Some(0.004)])
    );
    assert_eq!(days[0][2], row("2026-11-27", 5, 5, november));
    assert_eq!(days[1][0], row("2026-11-26", 2, 1, second));
    assert_eq!(days[1][1], row("2026-11-27", 5, 5, [None; 3]));
    let text = stats("").exits(0).printed();
    let table: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("  2026-1"))
        .collect();
    assert_eq!(table.len(), 3, "{text}");
    assert!(
        table.iter().all(|line| line.len() == table[0].len()),
        "{text}"
    );
    for cell in [" 2,004 ", " 1,992 ", " 17.96 ", " 23.004\n"] {
        assert!(text.contains(cell), "{cell}: {text}");
    }
    ledger(&place, &["forget", "users.csv"]).exits(0);
    assert_eq!(spent("--json"), months);
    // `by` in a settings file is the column of a report; its ledger holds here as well.
    fs::rename(place.path(LEDGER), place.path("named")).unwrap();
    place.write("settings.toml", "by = ['country']\nledger = 'named'\n");
    for words in ["ledger stats --json", "ledger --json stats"] {
        let stats = place.rescore(words).args("--config settings.toml");
        let done = stats.env("RESCORE_LEDGER", "").done();
        assert_eq!(done.exits(0).json()["ledger"], "named");
    }
    stats("--by year").exits(2).says("month, day");
}

/// Root may write anywhere unless it gives up that capability.
const GIVE_UP: [&str; 3] = [
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
];

#[test]
fn stats_needs_no_right_to_write() {
    let server = Server::good();
    let place = kept(&server, &[]);
    let mode = |name: &str, mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(place.path(name), mode).unwrap();
    };
    mode(LEDGER, 0o444);
    mode("", 0o555);
    let stats = place.rescore("ledger stats");
    let is_root = rustix::process::geteuid().is_root();
    let stats = if is_root {
        stats.under(&GIVE_UP)
    } else {
        stats
    };
    stats.exits(0).prints("5 answers");
    mode("", 0o755);
    assert_eq!(place.names(), [LEDGER, "scored.csv", "users.csv"]);
}
