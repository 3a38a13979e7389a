//! Looking after a ledger on a server by hand.

use super::{Setup, end_leases, run};
use crate::support::postgres::shared;
use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

#[test]
fn stats_prune_and_forget_take_the_address_and_say_what_a_server_keeps() {
    let Some(cluster) = shared() else { return };
    let setup = Setup::new(cluster, 50, Server::good());
    setup.run("scored.csv").done().exits(0);
    let ledger = |command| {
        let program = setup.place.rescore(["ledger", command, &setup.url]);
        program.args("--ledger-secret-file secret")
    };
    ledger("stats")
        .done()
        .exits(0)
        .prints("50 answers, ")
        .prints("younger than 1 d: 50");
    setup.place.write("some.csv", users::csv(2));
    ledger("forget")
        .args("--users some.csv")
        .done()
        .exits(0)
        .prints("forgot 2 answers about the users in 2 rows, 48 left")
        .prints("the server's log, copies and backups may still have them");
    ledger("forget").args("--users some.csv").done().exits(1);
    setup.database.sql(
        "UPDATE rescore.answers SET at = 0 WHERE key IN (SELECT key FROM rescore.answers LIMIT 8)",
    );
    ledger("prune")
        .args("--older-than 30d")
        .done()
        .exits(0)
        .prints("removed 8 answers")
        .prints("40 left");
    ledger("forget")
        .arg("--all")
        .done()
        .exits(0)
        .prints("forgot 40 answers, 0 left");
}

#[test]
fn forget_removes_what_gone_runs_had_claimed_and_nothing_that_a_run_calls_for() {
    const ROWS: usize = 9;
    let Some(cluster) = shared() else { return };
    let (server, release) = Server::holding(1);
    let setup = Setup::new(cluster, ROWS, server);
    setup.place.write("some.csv", users::csv(3));
    let forget = |args| {
        let program = setup.place.rescore("ledger forget").arg(&setup.url);
        let program = program.args("--ledger-secret-file secret").args(args);
        program.done()
    };
    let running = setup.run("scored.csv").start();
    setup.server.wait_for_calls(ROWS);
    setup.database.wait_for(1, "answers");
    forget("--users some.csv").exits(0);
    forget("--all").exits(1);
    assert_eq!(setup.database.count("claims"), ROWS - 1);
    running.kill_when(|| true);
    drop(release);
    end_leases(&setup.database);
    forget("--users some.csv").exits(1);
    assert_eq!(setup.database.count("claims"), ROWS - 3);
    // As if they had been given back without a verdict.
    setup
        .database
        .sql("UPDATE rescore.claims SET worker = NULL, at = 0");
    setup.place.write("some.csv", users::csv(5));
    forget("--users some.csv").exits(1);
    assert_eq!(setup.database.count("claims"), ROWS - 5);
    forget("--all").exits(1);
    assert_eq!(setup.database.count("claims"), 0);
}

#[test]
fn the_answers_of_a_file_are_imported_once() {
    let Some(cluster) = shared() else { return };
    let (database, csv) = (cluster.database(), users::csv(60));
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let args = "users.csv -o first.csv --ledger answers.ledger";
    place.run(&server, args).done().exits(0);
    let url = database.url();
    let import = || {
        place
            .rescore(["ledger", "import", "answers.ledger", "--ledger", &url])
            .args("--ledger-secret-file secret")
            .done()
    };
    // A ledger with a secret of its own would never find them.
    let other = cluster.database();
    let elsewhere = other.url();
    place
        .rescore([
            "ledger",
            "init",
            &elsewhere,
            "--ledger-secret-file",
            "other",
        ])
        .done()
        .exits(0);
    place
        .rescore(["ledger", "import", "answers.ledger", "--ledger", &elsewhere])
        .args("--ledger-secret-file other")
        .done()
        .exits(2)
        .says("made with another secret")
        .says("`--secret-from`");
    place
        .rescore(["ledger", "init", &url, "--ledger-secret-file", "secret"])
        .args("--secret-from answers.ledger")
        .done()
        .exits(0);
    import()
        .exits(0)
        .prints("brought in 60 answers from answers.ledger");
    import()
        .exits(0)
        .prints("brought in 0 answers")
        .prints("60 were there already");
    run(&place, &server, &url, "second.csv").done().exits(0);
    assert_eq!(server.calls(), 60);
    assert_eq!(place.text("second.csv"), users::scored(&csv));
}
