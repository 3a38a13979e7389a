//! `rescore ledger`: show what a ledger holds, prune old answers, and forget people.

use std::time::Duration;

use insta::assert_snapshot;

use crate::support::process::{Done, KEY, Place, Program};
use crate::support::server::Server;
use crate::support::shown::without_times;
use crate::support::users::{self, Verdict};

const LEDGER: &str = "answers.ledger";

/// A ledger with an answer for each of five users.
fn kept(server: &Server, flags: &[&str]) -> Place {
    let place = Place::with("users.csv", users::csv(5));
    run(&place, server, flags).exits(0);
    place
}

/// A run with the shared ledger. The address and the service id are in variables, so that flags can give others.
fn run(place: &Place, server: &Server, flags: &[&str]) -> Done {
    let program = place
        .rescore("run users.csv -o scored.csv --overwrite --ledger")
        .arg(LEDGER)
        .env("RESCORE_API_KEY", KEY)
        .env("RESCORE_BASE_URL", server.url())
        .env("RESCORE_SERVICE_ID", "test");
    program.args(flags).done()
}

fn ledger<'a>(place: &'a Place, words: &[&str]) -> Program<'a> {
    place.rescore("ledger").args(words)
}

/// `rescore ledger forget` about a user of `users.csv`.
fn forget_user(place: &Place, user: usize) -> Done {
    let (name, email) = (format!("User {user}"), format!("user{user}@example.com"));
    let ip = format!("192.0.2.{user}");
    let fields = [
        ["--name", &name],
        // Sanitised as a run does it.
        ["--email", &format!(" {email} ")],
        ["--ip", &ip],
        ["--user-agent", "Mozilla/5.0 (X11)"],
    ];
    let words = [&["forget", LEDGER][..], &fields.concat()].concat();
    let done = ledger(place, &words).done();
    done.silent_about(&name)
        .silent_about(&email)
        .silent_about(&ip)
        .silent_about("Mozilla")
        .silent_about(&Verdict::of(&name).id);
    done
}

/// Whether the ledger's files have the identifier of the user's answer.
fn has(place: &Place, user: usize) -> bool {
    let id = Verdict::of(&format!("User {user}")).id;
    let files = place.names();
    let mut files = files.iter().filter(|name| name.starts_with(LEDGER));
    files.any(|name| String::from_utf8_lossy(&place.read(name)).contains(&id))
}

#[test]
fn a_forgotten_user_is_in_no_file_of_the_ledger_and_is_sent_again() {
    let server = Server::good();
    let place = kept(&server, &[]);
    assert!(has(&place, 3));
    let done = forget_user(&place, 3);
    done.exits(0);
    done.prints("answers.ledger: forgot 1 answer about this user, 4 left");
    assert!(!has(&place, 3) && has(&place, 2));
    assert_eq!(place.names(), [LEDGER, "scored.csv", "users.csv"]);

    let done = forget_user(&place, 3);
    done.exits(1);
    done.prints("answers.ledger: no answers about this user were stored");

    run(&place, &server, &[]).exits(0);
    let asked = server.requests();
    assert_eq!(asked.len(), 6);
    assert_eq!(asked[5].name(), "User 3");
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
    let equal = users::named(["User 3"]).replace("user1@", "user3@");
    let row = equal
        .lines()
        .nth(1)
        .unwrap()
        .replace("192.0.2.1", "192.0.2.3");
    place.write("users.csv", users::csv(5) + &format!("{row}\n").repeat(3));
    run(&place, &server, &["--no-dedupe"]).exits(0);
    let done = forget_user(&place, 3);
    done.exits(0);
    done.prints("forgot 9 answers about this user, 24 left");
    assert!(!has(&place, 3));
}

#[test]
fn the_users_of_a_file_are_forgotten_and_none_of_their_data_is_shown() {
    let server = Server::good();
    let place = kept(&server, &[]);
    let all = users::csv(7);
    let lines: Vec<_> = all.lines().collect();
    let people = format!(
        "{}\n{}\n{}\n{}\n8,User 8,,192.0.2.8,Mozilla/5.0\n",
        lines[0], lines[2], lines[4], lines[7]
    );
    let done = ledger(&place, &["forget", LEDGER, "--users", "-"])
        .stdin(people.clone())
        .done();
    done.exits(0).says("name ← `name`");
    done.prints("forgot 2 answers about the users in 2 rows, 3 left");
    done.prints("1 row had no answer in the ledger");
    done.prints("1 row without a valid request");
    done.silent_about("User ").silent_about("@example.com");
    assert!(!has(&place, 2) && !has(&place, 4) && has(&place, 1));

    place.write("people.csv", people);
    let again = ["forget", LEDGER, "--users", "people.csv"];
    let done = ledger(&place, &again).done();
    done.exits(1);
    done.prints("answers.ledger: no answers about these users were stored");
    run(&place, &server, &[]).exits(0);
    assert_eq!(server.calls(), 7);

    place.write("people.csv", "");
    let done = ledger(&place, &again).done();
    done.exits(1).silent_about("rescore ledger: \n");
    done.prints("answers.ledger: no answers about these users were stored");

    // Columns with other names, as in `run`; and an invalid file changes nothing.
    let other = users::csv(1).replace("ip,user_agent", "last_seen,agent");
    place.write("people.csv", other.replace(",Mozilla/5.0 (X11)", ",x"));
    let mapped = [
        "--map",
        "ip=last_seen",
        "--set",
        "user_agent=Mozilla/5.0 (X11)",
    ];
    let done = ledger(&place, &[&again[..], &mapped].concat()).done();
    done.exits(0);
    done.prints("forgot 1 answer");
    // Also without a header: the first user is not taken for one.
    let headless: String = users::csv(3).split_inclusive('\n').skip(1).collect();
    place.write("people.csv", headless);
    let done = ledger(&place, &again).done();
    done.exits(2)
        .says("`--no-header`")
        .silent_about("example.com");
    let numbers = "--no-header --map name=2 --map email=3 --map ip=4 --map user_agent=5";
    let numbers: Vec<_> = numbers.split(' ').collect();
    let done = ledger(&place, &[&again[..], &numbers].concat()).done();
    done.prints("forgot 2 answers about the users in 2 rows");
    done.prints("1 row had no answer in the ledger");
    place.write("people.csv", users::csv(5) + "9,\"never closed");
    let before = place.read(LEDGER);
    ledger(&place, &again).done().exits(2);
    assert_eq!(place.read(LEDGER), before);
    assert_eq!(
        place.names(),
        [LEDGER, "people.csv", "scored.csv", "users.csv"]
    );
}

#[test]
fn all_users_can_be_forgotten_together() {
    let server = Server::good();
    let place = kept(&server, &[]);
    let done = ledger(&place, &["forget", LEDGER, "--all"]).done();
    done.exits(0);
    done.prints("forgot 5 answers, 0 left");
    assert!((1..=5).all(|user| !has(&place, user)));
    let done = ledger(&place, &["forget", LEDGER, "--all"]).done();
    done.exits(1);
    done.prints("answers.ledger: no answers were stored");
    run(&place, &server, &[]).exits(0);
    assert_eq!(server.calls(), 10);
}

#[test]
fn prune_removes_older_answers_and_keeps_younger_ones() {
    let server = Server::good();
    let place = kept(&server, &[]);
    let done = ledger(&place, &["prune", LEDGER, "--older-than", "30d"]).done();
    done.exits(0);
    done.prints("removed 0 answers from before ");
    done.prints(", 5 left");
    // The ledger keeps times in whole seconds.
    std::thread::sleep(Duration::from_millis(2_100));
    let done = ledger(&place, &["prune", LEDGER])
        .env("RESCORE_LEDGER_OLDER_THAN", "1s")
        .done();
    done.exits(0);
    done.prints("answers.ledger: removed 5 answers from before ");
    done.prints(", 0 left");
    done.prints(" bytes before, ");
    run(&place, &server, &[]).exits(0);
    assert_eq!(server.calls(), 10);
}

#[test]
fn stats_prints_what_a_ledger_holds_and_changes_nothing() {
    let server = Server::good();
    let place = kept(&server, &[]);
    run(&place, &server, &["--service-id", "other"]).exits(0);
    let before = place.read(LEDGER);
    let done = ledger(&place, &["stats", LEDGER]).done();
    done.exits(0);
    let printed = done.printed();
    let printed = without_times(&printed).replace(&server.url(), "http://SERVER");
    assert_snapshot!(printed, @r"
    answers.ledger: ledger version 2, created MOMENT
    10 answers, SIZE bytes, 6,553 per answer

    http://SERVER/v1/validate/user
      10 answers for 2 service IDs, from MOMENT to MOMENT
      younger than 1 d: 10, 7 d: 10, 30 d: 10
    ");
    done.check(done.stderr.is_empty(), "nothing on standard error");
    assert_eq!(place.read(LEDGER), before);
    assert_eq!(place.names(), [LEDGER, "scored.csv", "users.csv"]);
}

#[test]
fn the_ledger_of_an_active_run_can_be_read_but_not_changed() {
    let (server, release) = Server::holding_if(|request| request.nth > 3);
    let place = Place::with("users.csv", users::csv(5));
    let own = "scored.csv.ledger";
    let running = place.run(&server, "users.csv -o scored.csv -c 1").start();
    server.wait_for_calls(4);
    let done = ledger(&place, &["stats", own]).done();
    done.exits(0);
    // The third may not be durable yet.
    done.prints(" answers, ");
    for words in [
        &["prune", own, "--older-than", "1s"][..],
        &["forget", own, "--all"],
    ] {
        let done = ledger(&place, words).done();
        done.exits(75)
            .says("another command (process ")
            .says(") is using `scored.csv.ledger`");
        done.check(done.stdout.is_empty(), "nothing on standard output");
    }
    running.signal("INT");
    running.wait_for_words("interrupted");
    drop(release);
    running.done().exits(130);
    // Once the run has ended, its answers can be forgotten like all others.
    let done = ledger(&place, &["forget", own, "--all"]).done();
    done.exits(0);
    done.prints("forgot 4 answers, 0 left");
    place.score(&server, "").exits(0);
    assert_eq!(server.calls(), 9);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(5)));
}

#[test]
fn a_run_continues_while_a_user_is_forgotten_in_its_shared_ledger() {
    let (server, release) = Server::holding_if(|request| request.nth > 3);
    let place = Place::with("users.csv", users::csv(5));
    let running = place
        .run(
            &server,
            [
                "users.csv",
                "-o",
                "scored.csv",
                "-c",
                "1",
                "--ledger",
                LEDGER,
            ],
        )
        .start();
    server.wait_for_calls(4);
    let done = forget_user(&place, 2);
    done.exits(0);
    done.prints("forgot 1 answer about this user");
    assert!(!has(&place, 2) && has(&place, 1));
    ledger(&place, &["prune", LEDGER, "--older-than", "1d"])
        .done()
        .exits(0);
    drop(release);
    running.done().exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(5)));
    run(&place, &server, &[]).exits(0);
    assert_eq!(server.calls(), 6);
}

#[test]
fn forget_needs_to_know_whom_and_refuses_a_user_who_cannot_have_been_sent() {
    let server = Server::good();
    let place = kept(&server, &[]);
    let before = place.read(LEDGER);
    let user = [
        "--name",
        "Jane Doe",
        "--email",
        "jane@example.com",
        "--ip",
        "192.0.2.77",
        "--user-agent",
        "curl/8",
    ];
    for (words, expected) in [
        (&[][..], "specify whom to forget"),
        (&["--all", "--users", "x.csv"], "cannot be combined"),
        (&["--all", "--name", "Jane Doe"], "cannot be combined"),
        (&["--all", "--map", "ip=x"], "`--users`"),
        (&user[..6], "no user_agent"),
        (&user[2..], "no name"),
        (
            &[&user[..2], &user[4..]].concat(),
            "neither email nor phone",
        ),
        (
            &[&user[..], &["--phone", "0151 2345678"]].concat(),
            "`--phone`",
        ),
        (
            &[&user[..2], &["--email", "jane.example.com"], &user[4..]].concat(),
            "`--email`",
        ),
        (
            &[&user[..4], &["--ip", "192.0.2.777"], &user[6..]].concat(),
            "`--ip`",
        ),
    ] {
        let words = [&["forget", LEDGER][..], words].concat();
        let done = ledger(&place, &words).done();
        done.exits(2)
            .says("error: ")
            .says(expected)
            .silent_about("Jane")
            .silent_about("jane")
            .silent_about("2345678")
            .silent_about("192.0.2");
        assert_eq!(place.read(LEDGER), before);
    }
    for time in ["30", "0s", "soon"] {
        ledger(&place, &["prune", LEDGER, "--older-than", time])
            .done()
            .exits(2)
            .says("from 1s to 10 years");
    }
}

#[test]
fn a_file_that_is_not_a_ledger_is_left_as_it_is() {
    let place = Place::with("users.csv", users::csv(1));
    for (file, words) in [
        ("users.csv", "`users.csv` is not a rescore ledger"),
        (
            "none.ledger",
            "cannot open the ledger `none.ledger`: no such file",
        ),
        (
            "/dev/null",
            "error: `/dev/null` cannot be a ledger: it is not a regular file",
        ),
        (
            ".",
            "error: `.` cannot be a ledger: it is not a regular file",
        ),
    ] {
        for words_of in [
            &["stats", file][..],
            &["prune", file, "--older-than", "1d"],
            &["forget", file, "--all"],
        ] {
            let done = ledger(&place, words_of).done();
            done.exits(2).says(words).silent_about("--no-ledger");
            assert_eq!(place.names(), ["users.csv"]);
            assert_eq!(place.text("users.csv"), users::csv(1));
        }
    }
}

#[test]
fn a_place_where_a_ledger_cannot_be_written_is_named() {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    // Root may write anywhere.
    const OTHER: &[&str] = &[
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    const ITSELF: &[&str] = &["env"];
    let server = Server::good();
    let place = kept(&server, &[]);
    let mode = |name: &str, mode| {
        fs::set_permissions(place.path(name), Permissions::from_mode(mode)).unwrap();
    };
    let is_root = fs::metadata(place.path("")).unwrap().uid() == 0;
    let user = if is_root { OTHER } else { ITSELF };
    let stats = || ledger(&place, &["stats", LEDGER]).under(user).done();
    mode("", 0o555);
    if place.rescore("--version").under(user).done().code() != Some(0) {
        println!("skipped: the program cannot be run by another user");
        return;
    }
    mode(LEDGER, 0o666);
    let hint = "hint: run it as a user who may write there, or name a file in another place";
    let cannot = "error: cannot open the ledger `answers.ledger`: permission denied\n";
    stats().exits(2).says(cannot).says(hint).says(
        "  this user may not write to `.`\n  a ledger needs files beside it, also to be read\n",
    );
    mode(LEDGER, 0o444);
    stats()
        .exits(2)
        .says(cannot)
        .says("  this user may not write to `answers.ledger`\n");
    mode("", 0o755);
}

#[test]
fn nothing_is_left_of_a_user_that_a_killed_run_had_claimed() {
    let (server, release) = Server::holding(1);
    let place = Place::with("users.csv", users::csv(5));
    let args = "users.csv -o scored.csv -c 4 --ledger answers.ledger";
    let running = place.run(&server, args).start();
    server.wait_for_calls(5);
    let count = |table: &str| {
        let ledger = rusqlite::Connection::open(place.path(LEDGER)).unwrap();
        let count = format!("SELECT count(*) FROM {table}");
        ledger
            .query_row(&count, [], |row| row.get::<_, u32>(0))
            .unwrap()
    };
    running.kill_when(|| count("claims") > 0);
    drop(release);
    assert!(count("workers") > 0, "nobody has noticed that it is gone");
    ledger(&place, &["forget", LEDGER, "--users", "users.csv"]).done();
    assert_eq!((count("claims"), count("workers")), (0, 0));
    let locks = place.names().into_iter();
    assert_eq!(locks.filter(|name| name.contains("worker")).count(), 0);
}
