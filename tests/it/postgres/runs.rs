//! Runs over a ledger on a server: each user is paid for once, whoever asks.

use std::io::Write as _;
use std::time::Duration;

use serde_json::json;

use super::init::private;
use super::{Setup, end_leases, init, run};
use crate::support::new_field;
use crate::support::postgres::shared;
use crate::support::process::Place;
use crate::support::server::{Request, Server, good, status};
use crate::support::users;

#[test]
fn a_second_run_asks_nothing_and_gives_the_same_rows() {
    let Some(cluster) = shared() else { return };
    let setup = Setup::new(cluster, 300, Server::good());
    setup.run("first.csv").done().exits(0);
    setup.check_all("first.csv");
    setup
        .run("second.csv")
        .done()
        .exits(0)
        .says("300 rows already paid for, taken from the ledger");
    assert_eq!(setup.server.calls(), 300);
    setup.check("second.csv");
    // Nothing of a run that has ended is left, and nothing of a person was ever there.
    for table in ["claims", "workers", "runs"] {
        assert_eq!(setup.database.count(table), 0, "{table}");
    }
    let answers = setup.database.sql("SELECT * FROM rescore.answers");
    assert!(!answers.contains("User"), "{answers}");
    // `check` finds the same answers.
    let check = "check users.csv --ledger-secret-file secret --ledger";
    { setup.place.rescore(check).arg(&setup.url) }
        .done()
        .exits(0)
        .prints("paid for already  300");
}

#[test]
fn check_finds_a_stopped_run_by_its_output() {
    let Some(cluster) = shared() else { return };
    let setup = Setup::new(cluster, 20, Server::good());
    setup.run("all.csv").done().exits(0);
    setup
        .database
        .sql("UPDATE rescore.answers SET at = at - 3600000");
    let stopped = setup.run("scored.csv").args("--max-age 10m --max-calls 5");
    stopped.done().exits(3);
    let check = |output| {
        let words = ["check", "users.csv", "--json", "-o", output];
        let words = [&words[..], &["--ledger-secret-file", "secret", "--ledger"]].concat();
        let said = setup.place.rescore(words).arg(&setup.url).done().json();
        (said["known"].clone(), said["calls"].clone())
    };
    assert_eq!(check("other.csv"), (json!(20), json!(0)));
    assert_eq!(check("scored.csv"), (json!(5), json!(15)));
    setup.run("scored.csv").done().exits(0);
    assert_eq!(setup.server.calls(), 20 + 5 + 15);
}

#[test]
fn a_server_with_answers_of_another_address_alone_gives_a_warning() {
    const NONE: &str = "has no answers of this address and service id, only of others at http://";
    let Some(cluster) = shared() else { return };
    let (database, other) = (cluster.database(), Server::good());
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    let url = init(&place, &database);
    let score = |server, output| run(&place, server, &url, output).done();
    // A key that is refused leaves an address without an answer.
    let refusing = Server::start(|_| status(401));
    score(&refusing, "none.csv").exits(4).silent_about(NONE);
    score(&server, "a.csv").exits(0).silent_about(NONE);
    let words = "check users.csv --ledger-secret-file secret --ledger";
    let check = |more: &[&str]| place.rescore(words).arg(&url).args(more).done();
    // The only account with answers.
    check(&[]).exits(0).prints("paid for already  3");
    let of_nobody = ["--base-url", "https://other.example.com", "--service-id"];
    let check_of_nobody = || check(&[&of_nobody[..], &["test"]].concat());
    let warned = check_of_nobody();
    warned.exits(0).says(NONE).silent_about(&refusing.url());
    let warned = score(&other, "b.csv");
    warned.exits(0).says(NONE).silent_about(&refusing.url());
    score(&other, "c.csv").exits(0).silent_about(NONE);
    check(&[])
        .exits(2)
        .says(&other.url())
        .silent_about(&refusing.url());
}

#[test]
fn eight_runs_at_the_same_time_over_the_same_users_pay_once() {
    const ROWS: usize = 400;
    let Some(cluster) = shared() else { return };
    let (database, csv) = (cluster.database(), users::csv(ROWS));
    let slow = |request: &Request| good(request).after(Duration::from_millis(5));
    let (place, server) = (Place::with("users.csv", &csv), Server::start(slow));
    let url = init(&place, &database);
    let outputs: Vec<_> = (0..8).map(|run| format!("out{run}.csv")).collect();
    let runs: Vec<_> = { outputs.iter() }
        .map(|output| run(&place, &server, &url, output).start())
        .collect();
    for run in runs {
        run.done().exits(0);
    }
    assert_eq!(server.calls(), ROWS);
    for output in &outputs {
        assert_eq!(place.text(output), users::scored(&csv), "{output}");
    }
    assert_eq!(
        (database.count("answers"), database.count("claims")),
        (ROWS, 0)
    );
}

#[test]
fn identical_rows_are_duplicates_however_late_they_are_looked_up() {
    const ROWS: usize = 5;
    let Some(cluster) = shared() else { return };
    let (database, csv) = (cluster.database(), users::csv(ROWS));
    let (place, server) = (Place::new(), Server::good());
    let url = init(&place, &database);
    let (input, mut rows) = std::io::pipe().unwrap();
    let args = [
        "-",
        "-o",
        "scored.csv",
        "--ledger",
        &url,
        "--ledger-secret-file",
        "secret",
    ];
    let running = place.run(&server, args).stdin_from(input).start();
    rows.write_all(csv.as_bytes()).unwrap();
    database.wait_for(ROWS, "answers");
    let (_, same) = csv.split_once('\n').unwrap();
    rows.write_all(same.as_bytes()).unwrap();
    drop(rows);
    running
        .done()
        .exits(0)
        .says("5 rows reused the answer of an identical row")
        .silent_about("already paid for");
    assert_eq!(server.calls(), ROWS);
}

#[test]
fn a_killed_run_loses_no_answer_and_its_claims_are_taken_over_when_its_lease_ends() {
    const ROWS: usize = 40;
    let Some(cluster) = shared() else { return };
    let (server, release) = Server::holding(16);
    let setup = Setup::new(cluster, ROWS, server);
    let killed = setup.run("scored.csv").start();
    setup.server.wait_for_calls(24);
    killed.kill_when(|| true);
    drop(release);
    // Its calls in flight are its own for two minutes; here they end now.
    end_leases(&setup.database);
    setup
        .run("scored.csv")
        .done()
        .exits(0)
        .says("may have been billed twice");
    setup.check("scored.csv");
    let calls = setup.server.calls();
    // Its calls in flight, and answers that were on their way to the server.
    assert!((ROWS..=ROWS + 2 * 8).contains(&calls), "{calls}");
}

#[test]
fn what_a_run_says_at_its_end_about_the_next_one_is_true_of_a_ledger_on_a_server() {
    const ROWS: usize = 30;
    let Some(cluster) = shared() else { return };
    let setup = Setup::new(cluster, ROWS, Server::good());
    let scored = || setup.run("scored.csv");
    let part = scored().args("--limit 5").done();
    part.exits(0).says(
        "has the paid answers; the same command without `--limit` and with `--overwrite` continues",
    );
    let whole = || scored().arg("--overwrite");
    let stopped = whole().args("--max-calls 5").done();
    stopped
        .exits(3)
        .says("has the paid answers; the same command continues from there")
        .silent_about("move it away");
    // To standard output, too, the answers are kept.
    let streamed = setup.run("-");
    let streamed = streamed.args("--max-calls 5").done();
    streamed.exits(3).silent_about("no ledger keeps");
    let done = whole().done();
    done.exits(0).says("the answers are kept in postgresql://");
    assert_eq!(setup.server.calls(), ROWS);
    setup.check("scored.csv");
}

#[test]
fn another_secret_is_refused_before_anybody_is_paid_for_again() {
    let Some(cluster) = shared() else { return };
    let setup = Setup::new(cluster, 3, Server::good());
    setup.place.write("other", "1".repeat(64));
    private(&setup.place.path("other"), 0o600);
    let with = |file: &'static str| {
        let args = ["users.csv", "-o", "scored.csv", "--ledger", &setup.url];
        setup
            .place
            .run(&setup.server, args)
            .args(["--ledger-secret-file", file])
    };
    with("other")
        .done()
        .exits(2)
        .says("the secret in `other` is not the one that the ledger");
    with("missing")
        .done()
        .exits(2)
        .says("cannot read the ledger's secret");
    let args = ["users.csv", "-o", "scored.csv", "--ledger", &setup.url];
    setup
        .place
        .run(&setup.server, args)
        .done()
        .exits(2)
        .says("`--ledger-secret-file FILE`");
    assert_eq!(setup.server.calls(), 0);
}

#[test]
fn what_a_shared_ledger_cannot_do_is_refused_with_what_to_do_instead() {
    let Some(cluster) = shared() else { return };
    let setup = Setup::new(cluster, 3, Server::good());
    for (option, instead) in [
        ("--retry-failed", "`--overwrite`"),
        ("--fresh", "`--asked-since TIME`"),
        ("--no-dedupe", "identical rows share one answer"),
    ] {
        setup
            .run("scored.csv")
            .arg(option)
            .done()
            .exits(2)
            .says(option)
            .says(instead);
    }
    assert_eq!(setup.server.calls(), 0);
}

#[test]
fn a_role_that_may_only_look_cannot_run_and_one_that_works_cannot_remove() {
    let Some(cluster) = shared() else { return };
    let (database, csv) = (cluster.database(), users::csv(20));
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let name = &database.name;
    let (worker, reader, keeper) = (
        format!("w_{name}"),
        format!("r_{name}"),
        format!("k_{name}"),
    );
    for role in [&worker, &reader, &keeper] {
        database.sql(&format!("CREATE ROLE {role} LOGIN"));
    }
    let url = database.url();
    let grants = [
        "--worker", &worker, "--reader", &reader, "--keeper", &keeper,
    ];
    place
        .rescore(["ledger", "init", &url, "--ledger-secret-file", "secret"])
        .args(grants)
        .done()
        .exits(0)
        .prints(&format!("{worker} may call the service"));
    run(&place, &server, &database.url_of(&worker), "scored.csv")
        .done()
        .exits(0);
    run(&place, &server, &database.url_of(&reader), "other.csv")
        .done()
        .exits(2)
        .says("permission denied");
    database.sql("UPDATE rescore.answers SET at = 0");
    let older = "--older-than 1d";
    let prune = |user: &str| {
        let url = database.url_of(user);
        place.rescore(["ledger", "prune", &url]).args(older).done()
    };
    prune(&worker).exits(2).says("permission denied");
    assert_eq!(database.count("answers"), 20);
    prune(&keeper).exits(0).prints("removed 20 answers");
    assert_eq!(database.count("answers"), 0);
}

#[test]
fn answers_that_lack_a_field_are_said_before_they_are_paid_for_again() {
    let Some(cluster) = shared() else { return };
    let setup = Setup::new(cluster, 3, Server::good());
    setup.run("first.csv").done().exits(0).silent_about("lack");
    let with_field = |output| setup.run(output).args("--column level=/level");
    with_field("second.csv").done().exits(0).says(
        "3 answers in the ledger lack `/level`, which this run needs: rows with such an answer are sent again, and paid for",
    );
    with_field("third.csv").done().exits(0).silent_about("lack");
    assert_eq!(setup.server.calls(), 6);
}

#[test]
fn a_run_stores_a_field_that_another_one_asks_for_meanwhile() {
    let Some(cluster) = shared() else { return };
    let (server, answered) = new_field::service();
    let setup = Setup::new(cluster, new_field::USERS, server);
    let runs = [setup.run("1.csv"), setup.run("2.csv")];
    new_field::check((&setup.server, &answered), &setup.place, 8, runs);
    let lists = "SELECT string_agg(pointers, ' ' ORDER BY id) FROM rescore.captured_fields";
    assert_eq!(setup.database.sql(lists), r#"[] ["/level"]"#);
}
