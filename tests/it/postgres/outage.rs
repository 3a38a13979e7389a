//! The server goes away: nobody is paid for twice, and no answer is lost.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use super::{Setup, end_leases, init, run};
use crate::support::postgres::{Cluster, own, shared};
use crate::support::process::{Done, Place, Running};
use crate::support::server::{Request, Server, good};
use crate::support::users;

const ROWS: usize = 60;

/// A service that answers the calls for the first users immediately, and the others when the sender is dropped.
fn holding(cluster: &Cluster) -> (Setup<'_>, Sender<()>) {
    let (server, release) = Server::holding(20);
    (Setup::new(cluster, ROWS, server), release)
}

impl Setup<'_> {
    /// A run whose calls in flight all wait for their answers.
    fn in_flight(&self) -> Running<'_> {
        let running = self.run("scored.csv").start();
        self.server.wait_for_calls(28);
        running
    }

    /// Stops the server while calls are in flight, until the run ends with exit code 3.
    fn stop_server_for_good(&self, release: Sender<()>) -> Done {
        let running = self.run("scored.csv").args("--max-outage 1s").start();
        self.server.wait_for_calls(28);
        self.database.cluster.stop_server();
        drop(release);
        let done = running.done();
        done.exits(3);
        self.database.cluster.start_server();
        done
    }
}

#[test]
fn answers_wait_beside_the_output_until_the_server_is_back() {
    let Some(cluster) = own() else { return };
    let (setup, release) = holding(&cluster);
    let running = setup.in_flight();
    cluster.stop_server();
    drop(release);
    running.wait_for_file("scored.csv.spill", |_| true);
    // Until an answer cannot be stored, nobody knows that the server is away: what was claimed before may be called for.
    assert!(setup.server.calls() <= 28 + 8, "{}", setup.server.calls());
    running.wait_for_words("the ledger's server cannot be used: ");
    cluster.start_server();
    running
        .done()
        .exits(0)
        .says("the ledger's server can be used again")
        .says("the ledger's server could not be used once, for ");
    setup.check_all("scored.csv");
}

#[test]
fn an_outage_is_reported_also_when_nothing_is_left_to_claim() {
    const ROWS: usize = 1 + 16;
    let Some(cluster) = own() else { return };
    let database = cluster.database();
    let csv = users::csv(ROWS);
    let place = Place::with("users.csv", &csv);
    // User 1 is answered immediately, eight are in the first step, and the others in the second.
    let step = Arc::new(AtomicUsize::new(0));
    let reached = Arc::clone(&step);
    let server = Server::start(move |request: &Request| {
        let user: usize = request.name()["User ".len()..].parse().unwrap();
        while reached.load(Ordering::Acquire) < (user + 6) / 8 {
            thread::sleep(Duration::from_millis(2));
        }
        good(request)
    });
    init(&place, &database);
    let running = run(&place, &server, &database.url(), "scored.csv").start();
    server.wait_for_calls(1 + 8);
    database.wait_for(16, "claims");
    cluster.stop_server();
    step.store(1, Ordering::Release);
    running.wait_for_words("the ledger's server cannot be used: ");
    cluster.start_server();
    database.wait_for(1 + 8, "answers");
    step.store(2, Ordering::Release);
    running
        .done()
        .exits(0)
        .says("the ledger's server can be used again");
    assert_eq!(server.calls(), ROWS);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn an_outage_that_several_files_wait_for_is_one() {
    let Some(cluster) = own() else { return };
    let (server, release) = Server::holding(1);
    let setup = Setup::new(&cluster, 9, server);
    setup.place.write("z.csv", users::csv(12));
    let args = "users.csv z.csv --output-dir out -c 8 --ledger-secret-file secret --ledger";
    let program = setup.place.run(&setup.server, args).arg(&setup.url);
    let running = program.start();
    setup.server.wait_for_calls(9);
    cluster.stop_server();
    drop(release);
    running.wait_for_file("out/users.csv", |_| true);
    running.wait_for_file("out/z.csv.partial", |_| true);
    cluster.start_server();
    running
        .done()
        .exits(0)
        .says("the ledger's server could not be used once, for ");
    assert_eq!(setup.server.calls(), 12);
}

#[test]
fn a_server_that_stays_away_stops_the_run_and_the_next_one_brings_its_answers_in() {
    let Some(cluster) = own() else { return };
    let (setup, release) = holding(&cluster);
    setup
        .stop_server_for_good(release)
        .says(" paid answers wait in `scored.csv.spill`")
        .says(" has the paid answers; the same command continues from there")
        .silent_about("--overwrite");
    let paid = setup.server.calls();
    assert!(paid <= 28 + 8, "{paid}");
    setup
        .run("scored.csv")
        .done()
        .exits(0)
        .says("that an earlier run had kept here while its server was away")
        // What that run had claimed and not called for is free: this one does not wait for the end of its lease.
        .silent_about("twice");
    setup.check_all("scored.csv");
}

#[test]
fn a_run_that_is_interrupted_while_the_server_is_away_leaves_its_answers_and_claims_to_the_next_one()
 {
    let Some(cluster) = own() else { return };
    let (setup, release) = holding(&cluster);
    let running = setup.in_flight();
    cluster.stop_server();
    drop(release);
    running.wait_for_words("the ledger's server cannot be used: ");
    running.signal("INT");
    running
        .done()
        .exits(130)
        .says(" paid answers wait in `scored.csv.spill`");
    cluster.start_server();
    setup
        .run("scored.csv")
        .done()
        .exits(0)
        .silent_about("twice");
    setup.check_all("scored.csv");
}

#[test]
fn a_run_that_stops_before_any_answer_waits_leaves_its_claims_as_well() {
    let Some(cluster) = own() else { return };
    let (setup, release) = holding(&cluster);
    let running = setup
        .run("scored.csv")
        .args("--timeout 1s --retries 0 --resend-unknown 0")
        .start();
    setup.server.wait_for_calls(28);
    // All answers that came have been stored.
    setup.database.wait_for(20, "answers");
    cluster.stop_server();
    running.signal("INT");
    // Its calls in flight get no answer.
    running.done().exits(130).silent_about("paid answers wait");
    drop(release);
    cluster.start_server();
    assert_eq!(setup.database.count("workers"), 1);
    // It does not wait for the end of the lease, and counts those calls and what was claimed ahead of them.
    let next = setup.run("scored.csv").done();
    next.exits(0).says("rows may have been billed twice");
    assert_eq!(setup.place.names(), ["scored.csv", "secret", "users.csv"]);
}

#[test]
fn the_words_of_a_run_that_gave_up_have_the_command_that_brings_its_answers_in() {
    let Some(cluster) = own() else { return };
    let (setup, release) = holding(&cluster);
    let done = setup.stop_server_for_good(release);
    let command = format!(
        "rescore ledger import scored.csv.spill --ledger '{}' --ledger-secret-file secret",
        setup.url
    );
    done.says(&format!("`{command}`"));
    let import = ["ledger", "import", "scored.csv.spill", "--ledger"];
    let url = setup.url;
    let import = setup.place.rescore(import).arg(url);
    import.args("--ledger-secret-file secret").done().exits(0);
    assert_eq!(setup.database.count("answers"), setup.server.calls());
}

#[test]
fn a_run_that_finished_while_the_server_was_away_names_the_command_that_brings_its_answers_in() {
    const ROWS: usize = 9;
    let Some(cluster) = own() else { return };
    let (server, release) = Server::holding(1);
    let setup = Setup::new(&cluster, ROWS, server);
    let running = setup.run("scored.csv").args("--max-outage 1s").start();
    setup.server.wait_for_calls(ROWS);
    cluster.stop_server();
    drop(release);
    let done = running.done();
    done.exits(3)
        .says("8 paid answers wait in `scored.csv.spill`")
        .says(
            "when the server answers, bring them in with `rescore ledger import scored.csv.spill ",
        )
        // That would be another run, and is refused without `--overwrite`.
        .silent_about("the same command");
    setup.check("scored.csv");
}

#[test]
fn rows_to_standard_output_wait_under_a_name_that_no_other_run_has() {
    let Some(cluster) = own() else { return };
    let (setup, release) = holding(&cluster);
    // Another ledger's run has left answers here: they stay.
    foreign_spill(&setup, "rescore-1.spill");
    let to_stream = || {
        let args = ["users.csv", "--ledger", &setup.url, "-c", "8", "-o"];
        let args = [&args[..], &["-", "--ledger-secret-file", "secret"]].concat();
        setup.place.run(&setup.server, "").args(args)
    };
    let before = setup.server.calls();
    let running = to_stream().args("--max-outage 1s").start();
    setup.server.wait_for_calls(before + 8);
    cluster.stop_server();
    drop(release);
    running.done().exits(3).says("in this directory");
    let is_own = |name: &&String| {
        let random = name.strip_prefix("rescore-");
        let random = random.and_then(|name| name.strip_suffix(".spill"));
        random.is_some_and(|it| it.len() == 8 && it.chars().all(|c| c.is_ascii_hexdigit()))
    };
    let names = setup.place.names();
    assert_eq!(names.iter().filter(is_own).count(), 1, "{names:?}");
    cluster.start_server();
    end_leases(&setup.database);
    let done = to_stream().done();
    done.exits(0)
        .says("that an earlier run had kept here while its server was away");
    assert_eq!(done.printed(), users::scored(&setup.csv));
    assert_eq!(setup.server.calls(), before + ROWS);
    let left = ["foreign.csv", "rescore-1.spill", "secret", "users.csv"];
    assert_eq!(setup.place.names(), left);
}

/// Makes a spill under this name that has an answer of a ledger with another secret.
fn foreign_spill(setup: &Setup<'_>, name: &str) {
    setup.place.write("foreign.csv", users::csv(1));
    let foreign = ["foreign.csv", "-o", "foreign.out", "--ledger", name];
    setup.place.run(&setup.server, foreign).done().exits(0);
    fs::remove_file(setup.place.path("foreign.out")).unwrap();
}

#[test]
fn a_spill_of_another_ledger_is_refused_before_the_first_call() {
    let Some(cluster) = shared() else { return };
    let (setup, _release) = holding(cluster);
    foreign_spill(&setup, "scored.csv.spill");
    let calls = setup.server.calls();
    setup
        .run("scored.csv")
        .done()
        .exits(2)
        .says("`scored.csv.spill` has paid answers for another ledger")
        .says("`rescore ledger import scored.csv.spill --ledger ");
    assert_eq!(setup.server.calls(), calls);
    assert!(setup.place.path("scored.csv.spill").exists());
}

#[test]
fn a_spill_without_answers_is_removed_and_a_damaged_one_is_named() {
    let Some(cluster) = shared() else { return };
    let (setup, release) = holding(cluster);
    drop(release);
    foreign_spill(&setup, "scored.csv.spill");
    let spill = setup.place.path("scored.csv.spill");
    // The head is that of a ledger.
    let mut bytes = fs::read(&spill).unwrap();
    bytes[200..].fill(b'x');
    fs::write(&spill, bytes).unwrap();
    let done = setup.run("scored.csv").done();
    done.exits(2)
        .says("`scored.csv.spill`: the file is damaged");
    // What leads elsewhere is not ours.
    fs::remove_file(&spill).unwrap();
    std::os::unix::fs::symlink("nowhere", &spill).unwrap();
    let done = setup.run("scored.csv").done();
    done.exits(2)
        .says("`scored.csv.spill`: it is a symbolic link");
    fs::remove_file(&spill).unwrap();
    // As a kill leaves it: just made, or with tables and a secret of SQLite's drawing.
    fs::write(&spill, "").unwrap();
    setup.run("scored.csv").done().exits(0);
    assert!(!spill.exists());
    setup
        .place
        .write("none.csv", users::csv(1).lines().next().unwrap());
    let none = "none.csv -o none.out --ledger scored.csv.spill";
    setup.place.run(&setup.server, none).done().exits(0);
    assert!(spill.exists());
    setup.run("scored.csv").arg("--overwrite").done().exits(0);
    assert!(!spill.exists());
}

#[test]
fn a_spill_that_cannot_be_made_is_not_the_servers_fault() {
    let Some(cluster) = own() else { return };
    let (setup, release) = holding(&cluster);
    let running = setup.in_flight();
    fs::create_dir(setup.place.path("scored.csv.spill")).unwrap();
    cluster.stop_server();
    drop(release);
    running
        .done()
        .exits(3)
        .says("cannot keep answers in `scored.csv.spill`: it is not a regular file")
        .says(" paid answers may be lost");
}

#[test]
fn a_crash_of_the_server_loses_no_answer() {
    let Some(cluster) = own() else { return };
    let (setup, release) = holding(&cluster);
    let running = setup.in_flight();
    cluster.crash_server();
    drop(release);
    running.done().exits(0);
    setup.check_all("scored.csv");
}

#[test]
fn what_somebody_can_put_right_is_waited_for() {
    let Some(cluster) = shared() else { return };
    let (setup, release) = holding(cluster);
    let running = setup.in_flight();
    setup
        .database
        .sql("ALTER TABLE rescore.claims RENAME TO elsewhere");
    drop(release);
    running.wait_for_words("the ledger's server cannot be used: relation");
    setup
        .database
        .sql("ALTER TABLE rescore.elsewhere RENAME TO claims");
    running.done().exits(0);
    setup.check_all("scored.csv");
}
