//! Claims of a run whose lease ends or whose server goes away, and of one that is gone: what becomes of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use super::{Setup, end_leases, init, run};
use crate::support::postgres::{own, shared};
use crate::support::process::Place;
use crate::support::server::{Request, Server, good, raw, status};
use crate::support::users;

/// Calls in flight of each run.
const CALLS: usize = 8;

#[test]
fn what_was_taken_over_counts_also_where_the_answer_to_that_was_lost() {
    const ROWS: usize = 1 + CALLS;
    let Some(cluster) = shared() else { return };
    let (server, release) = Server::holding(1);
    let setup = Setup::new(cluster, ROWS, server);
    let killed = setup.run("scored.csv").start();
    setup.server.wait_for_calls(ROWS);
    killed.kill_when(|| true);
    drop(release);
    let gone = setup.database.sql("SELECT id FROM rescore.workers");
    let next = setup.run("next.csv").start();
    setup.database.wait_for(2, "workers");
    // What the statement does when the lease has ended; nobody hears of it.
    setup.database.sql(&format!(
        "UPDATE rescore.claims SET taken_over = true,
            worker = (SELECT id FROM rescore.workers WHERE id <> '{gone}')"
    ));
    let words = format!("{CALLS} rows may have been billed twice");
    next.done().exits(0).says(&words);
    setup.check("next.csv");
    assert_eq!(setup.server.calls(), ROWS + CALLS);
}

#[test]
fn what_was_asked_again_before_a_second_kill_counts_for_the_run_after_it() {
    const ROWS: usize = 1 + CALLS;
    let Some(cluster) = shared() else { return };
    let (server, free) = Server::holding_past(1);
    let setup = Setup::new(cluster, ROWS, server);
    let (run, database) = (|| setup.run("scored.csv"), &setup.database);
    let first = run().start();
    setup.server.wait_for_calls(ROWS);
    database.wait_for(1, "answers");
    first.kill_when(|| true);
    end_leases(database);
    free.store(ROWS - 2, Ordering::Release);
    let second = run().start();
    setup.server.wait_for_calls(ROWS + CALLS);
    database.wait_for(ROWS - 2, "answers");
    database.wait_for(1, "runs WHERE maybe_billed_twice = 8");
    second.kill_when(|| true);
    end_leases(database);
    free.store(ROWS, Ordering::Release);
    let third = run().args("--max-calls 1").done();
    third.exits(3).says("9 rows may have been billed twice");
    database.wait_for(1, "runs WHERE maybe_billed_twice = 0");
    let last = run().done();
    last.exits(0).says("1 row may have been billed twice");
    setup.check("scored.csv");
}

#[test]
fn a_row_whose_call_got_no_answer_counts_once_for_the_next_run_that_asks() {
    let Some(cluster) = shared() else { return };
    let server = Server::start(|request: &Request| match &*request.name() {
        "User 7" if request.attempt == 1 => raw("").then_close(),
        // The run that counts it gets an answer that costs nothing.
        "User 7" if request.attempt == 2 => status(422),
        _ => good(request),
    });
    let setup = Setup::new(cluster, 20, server);
    let first = setup.run("1.csv").args("--resend-unknown 0").done();
    first.exits(1).silent_about("twice");
    let next = setup.run("2.csv").done();
    next.exits(1).says("1 row may have been billed twice");
    setup.run("3.csv").done().exits(0).silent_about("twice");
    assert_eq!(setup.server.calls(), 22);
    assert_eq!(setup.database.count("claims"), 0);
}

#[test]
fn a_call_without_a_verdict_is_forgotten_after_a_day_also_where_others_follow() {
    let Some(cluster) = shared() else { return };
    let server = Server::start(|request: &Request| match &*request.name() {
        "User 7" | "User 22" if request.attempt == 1 => raw("").then_close(),
        _ => good(request),
    });
    let setup = Setup::new(cluster, 20, server);
    let first = setup.run("1.csv").args("--resend-unknown 0").done();
    first.exits(1);
    let day = "UPDATE rescore.claims SET at = at - 86400000";
    assert_eq!(setup.database.count("claims"), 1);
    setup.database.sql(day);
    let more = users::csv(22);
    let lines: Vec<_> = more.lines().collect();
    let others = [lines[0], lines[21], lines[22]].join("\n");
    setup.place.write("more.csv", others);
    let args = "more.csv -o 2.csv -c 1 --resend-unknown 0 --ledger-secret-file secret --ledger";
    let other = setup.place.run(&setup.server, args).arg(&setup.url);
    other.done().exits(1);
    assert_eq!(setup.database.count("claims"), 1);
    setup.run("3.csv").done().exits(0).silent_about("twice");
    assert_eq!(setup.server.calls(), 23);
    // It can be removed by hand as well, when it is as old.
    let prune = ["ledger", "prune", &setup.url, "--older-than", "1h"];
    let prune = || {
        setup.place.rescore(prune).done().exits(0);
    };
    prune();
    assert_eq!(setup.database.count("claims"), 1);
    setup.database.sql(day);
    prune();
    assert_eq!(setup.database.count("claims"), 0);
}

#[test]
fn a_run_whose_lease_has_ended_keeps_what_nobody_has_taken_over() {
    const ROWS: usize = 1 + 4 * CALLS;
    let Some(cluster) = own() else { return };
    let (server, release) = Server::holding(1);
    let setup = Setup::new(&cluster, ROWS, server);
    let running = setup.run("scored.csv").start();
    setup.server.wait_for_calls(1 + CALLS);
    // Some are claimed ahead of their calls, and not all of those are called for before the run notices.
    setup.database.wait_for(2 * CALLS + 1, "claims");
    end_leases(&setup.database);
    cluster.stop_server();
    drop(release);
    running.wait_for_words("the ledger's server cannot be used");
    cluster.start_server();
    running.done().exits(0).silent_about("twice");
    setup.check_all("scored.csv");
    assert_eq!(setup.database.count("claims"), 0);
}

#[test]
fn a_row_that_failed_while_the_server_was_away_is_free_for_other_runs_when_it_is_back() {
    const ROWS: usize = 1 + CALLS;
    let Some(cluster) = own() else { return };
    let (database, csv) = (cluster.database(), users::csv(ROWS));
    // User 1 is answered immediately, user 2 is refused and user 3 answered in the first step, and the others in the second.
    let step = Arc::new(AtomicUsize::new(0));
    let reached = Arc::clone(&step);
    let server = Server::start(move |request: &Request| {
        let name = request.name();
        let due = match &*name {
            "User 1" => 0,
            "User 2" | "User 3" => 1,
            _ => 2,
        };
        while reached.load(Ordering::Acquire) < due {
            thread::sleep(Duration::from_millis(2));
        }
        if name == "User 2" {
            status(422)
        } else {
            good(request)
        }
    });
    let place = Place::with("users.csv", &csv);
    let lines: Vec<_> = csv.lines().collect();
    place.write("user2.csv", format!("{}\n{}\n", lines[0], lines[2]));
    let url = init(&place, &database);
    let running = run(&place, &server, &url, "scored.csv").start();
    server.wait_for_calls(ROWS);
    cluster.stop_server();
    step.store(1, Ordering::Release);
    running.wait_for_file("scored.csv.spill", |_| true);
    cluster.start_server();
    let args = ["user2.csv", "-o", "other.csv", "--ledger", &url];
    let other = place.run(&server, args).args("--ledger-secret-file secret");
    // It would wait for as long as the first run is there.
    other.done().exits(1);
    step.store(2, Ordering::Release);
    running.done().exits(1);
    assert_eq!(server.calls(), ROWS + 1);
}

#[test]
fn what_was_taken_over_and_given_back_uncalled_counts_when_it_is_called_for() {
    const ROWS: usize = 1 + CALLS;
    let Some(cluster) = shared() else { return };
    let (server, release) = Server::holding(1);
    let setup = Setup::new(cluster, ROWS, server);
    let killed = setup.run("scored.csv").start();
    setup.server.wait_for_calls(ROWS);
    killed.kill_when(|| true);
    end_leases(&setup.database);
    // A run calls for one more user, takes a claim over meanwhile, and is stopped.
    let more = users::csv(ROWS + 1);
    let lines: Vec<_> = more.lines().collect();
    let other = [&lines[..1], &lines[ROWS + 1..], &lines[2..=ROWS]].concat();
    setup.place.write("other.csv", other.join("\n"));
    let args = "other.csv -o other.out -c 1 --ledger-secret-file secret";
    let other = setup.place.run(&setup.server, args);
    let stopped = other.args(["--ledger", &setup.url]).start();
    setup.server.wait_for_calls(ROWS + 1);
    setup.database.wait_for(1, "claims WHERE taken_over");
    stopped.signal("INT");
    stopped.wait_for_words("Ctrl-C");
    drop(release);
    stopped.done().exits(130);
    let words = format!("{CALLS} rows may have been billed twice");
    let next = setup.run("next.csv").done();
    next.exits(0).says(&words);
    setup.check("next.csv");
    assert_eq!(setup.server.calls(), ROWS + 1 + CALLS);
    assert_eq!(setup.database.count("claims"), 0);
}
