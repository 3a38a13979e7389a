//! A ledger on a PostgreSQL server, where `TEST_POSTGRES` is set: who uses it together, a kill, a server that restarts,
//! and people who look after it. Without the variable these tests pass without doing anything.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::kills::Plan;
use crate::docs::schema::assert_valid;
use crate::support::postgres::{Cluster, PASSWORD};
use crate::support::process::{Done, Place, Program};
use crate::support::server::Server;
use crate::support::users;

/// A database of its own on a server, without a ledger.
pub(super) struct Database<'a> {
    cluster: &'a Cluster,
    name: String,
}

impl Database<'static> {
    /// On the server that tests share.
    fn shared() -> Option<Self> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        let cluster = SHARED.get_or_init(Cluster::start).as_ref()?;
        Some(Database::on(cluster))
    }

    /// On the server that tests share, with a ledger.
    pub(super) fn with_ledger() -> Option<Self> {
        let database = Self::shared()?;
        database.init();
        Some(database)
    }
}

impl<'a> Database<'a> {
    fn on(cluster: &'a Cluster) -> Self {
        static DATABASES: AtomicUsize = AtomicUsize::new(0);
        let name = format!("t{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        cluster.sql(&format!("CREATE DATABASE {name}"));
        Self { cluster, name }
    }

    /// Its address, with these words behind the user's name.
    fn url_with(&self, password: &str) -> String {
        let Self { cluster, name } = self;
        let port = cluster.port;
        format!("postgresql://ledger{password}@127.0.0.1:{port}/{name}")
    }

    /// With the password, which no output may have.
    pub(super) fn url(&self) -> String {
        self.url_with(&format!(":{}", PASSWORD.replace(' ', "%20")))
    }

    fn init(&self) {
        let done = Place::new()
            .rescore(["ledger", "init", &self.url()])
            .exits(0);
        done.prints("made the ledger");
    }

    fn run<'p>(&self, place: &'p Place, server: &'p Server, args: &str) -> Program<'p> {
        place.run(server, args).env("RESCORE_LEDGER", self.url())
    }
}

fn silent_about_the_password(done: &Done) {
    for word in PASSWORD.split(' ') {
        done.silent_about(word);
    }
}

#[test]
fn a_ledger_is_made_once_and_a_run_without_one_names_the_command() {
    let Some(database) = Database::shared() else {
        return;
    };
    let (place, server) = (Place::with("users.csv", users::csv(5)), Server::good());
    let run = || database.run(&place, &server, "users.csv -o scored.csv");
    let bare = database.url_with("");
    let done = run().exits(2);
    done.says(&format!("there is no ledger at `{bare}` yet"))
        .says(&format!("make it once with `rescore ledger init '{bare}'`"));
    silent_about_the_password(&done);
    for made in ["made the ledger", "the ledger is there already"] {
        let init = place.rescore(["ledger", "init", &bare]);
        let done = init.env("PGPASSWORD", PASSWORD).exits(0);
        done.prints(&format!("{bare}: {made}\n"));
    }
    run().exits(0);
    assert_eq!(server.calls(), 5);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(5)));
    assert_eq!(place.names(), ["scored.csv", "users.csv"]);
}

#[test]
fn each_kill_of_one_of_four_runs_costs_no_more_than_what_it_had_not_stored() {
    let Some(database) = Database::with_ledger() else {
        return;
    };
    let plan = Plan {
        runs: 4,
        users: 1_000,
        kills: 6,
    };
    plan.pays_once(|program| program.env("RESCORE_LEDGER", database.url()));
}

#[test]
fn a_server_that_restarts_is_waited_for_and_nothing_is_paid_for_twice() {
    const USERS: usize = 100;
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let database = Database::on(&cluster);
    database.init();
    let csv = users::csv(USERS);
    let (server, release) = Server::holding(30);
    let place = Place::with("users.csv", &csv);
    let args = "users.csv -o scored.csv -c 4 --progress plain --log log.jsonl";
    let run = database.run(&place, &server, args).start();
    server.wait_for_calls(34);
    cluster.control(&["stop", "-m", "fast"]);
    // Their answers come while it is away.
    drop(release);
    run.wait_for_words("waiting for the ledger's server");
    assert!(server.calls() < USERS, "it calls for nothing new");
    cluster.control(&["start"]);
    let done = run.exits(0);
    silent_about_the_password(&done);
    assert_eq!(server.calls(), USERS);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
    // The whole ledger is there.
    let again = database.run(&place, &server, "users.csv -o again.csv");
    again.exits(0);
    assert_eq!(server.calls(), USERS);
}

#[test]
fn people_look_after_it_and_no_output_has_its_password() {
    let Some(database) = Database::with_ledger() else {
        return;
    };
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", users::csv(5));
    let url = database.url();
    let ledger = |words: &[&str]| {
        let done = place.rescore("ledger").args(words).done();
        silent_about_the_password(&done);
        done
    };
    let files = "--summary s.json --log l.jsonl --metrics m.prom --report r.html";
    let run = || {
        let run = database.run(&place, &server, "users.csv -o scored.csv -c 2 --overwrite");
        run.args(files).args("--progress json")
    };
    let running = run().start();
    server.wait_for_calls(5);
    let forget = ["forget", "users.csv", "--ledger", &url];
    ledger(&forget).exits(75).says("is using the ledger");
    drop(release);
    let done = running.exits(0);
    done.says(&database.url_with(""));
    silent_about_the_password(&done);

    ledger(&["stats", &url]).exits(0).prints("\n5 answers, ");
    let stats = ledger(&["stats", &url, "--json"]);
    assert_valid(&stats.json());
    assert_eq!(stats.json()["accounts"][0]["spending"][0]["answers"], 5);
    let init = ledger(&["init", &url, "--json"]);
    assert_valid(&init.json());
    assert_eq!(init.json()["made"], false);
    let prune = ["prune", &url, "--older-than", "30d"];
    ledger(&prune).exits(0).prints("removed 0 answers");
    let people: String = users::csv(3).split_inclusive('\n').take(3).collect();
    place.write("people.csv", people);
    let forget = ["forget", "people.csv", "--ledger", &url];
    let words = "forgot 2 answers about the users in 2 rows, 3 left";
    ledger(&forget).exits(0).prints(words);
    ledger(&forget).exits(1);
    silent_about_the_password(&run().exits(0));
    assert_eq!(server.calls(), 5 + 2);

    for command in ["check users.csv --json", "config"] {
        let shown = place.rescore(command).env("RESCORE_LEDGER", &*url);
        silent_about_the_password(&shown.exits(0));
    }
    let wrong = url.replace("horse", "horses");
    let done = place.rescore(["ledger", "stats", &wrong]).exits(2);
    done.says("PGPASSWORD");
    silent_about_the_password(&done);
    for name in place.names() {
        let text = String::from_utf8_lossy(&place.read(&name)).into_owned();
        assert!(!text.contains("horse"), "`{name}`: {text}");
    }
}

#[test]
fn a_ledger_moves_from_a_file_to_a_server_and_back_and_costs_no_call() {
    let Some(database) = Database::shared() else {
        return;
    };
    let (place, server) = (Place::with("users.csv", users::csv(5)), Server::good());
    let url = database.url();
    let copy = |from: &str, to: &str| {
        let done = place.rescore(["ledger", "copy", from, to]).done();
        silent_about_the_password(&done);
        done
    };
    place.score(&server, "--ledger a").exits(0);
    copy("a", &url).exits(2).says("rescore ledger init");
    database.init();
    copy("a", &url).exits(0).prints("copied 5 answers");
    copy("a", &url).exits(0).prints("copied 0 answers");
    place.write("users.csv", users::csv(7));
    let run = || database.run(&place, &server, "users.csv -o scored.csv --overwrite");
    run().exits(0);
    copy(&url, "b").exits(0).prints("copied 7 answers");
    copy(&url, "a").exits(0).prints("copied 2 answers");
    for ledger in ["a", "b"] {
        let flags = format!("--overwrite --ledger {ledger}");
        place.score(&server, &*flags).exits(0);
    }
    run().exits(0);
    assert_eq!(server.calls(), 7);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(7)));
    // Another ledger.
    place
        .score(&server, "--overwrite --fresh --ledger c")
        .exits(0);
    copy("c", &url).exits(2).says("different ledgers");
}

#[test]
fn a_server_that_a_run_uses_can_be_copied_but_nothing_can_be_copied_into_it() {
    let Some(database) = Database::with_ledger() else {
        return;
    };
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", users::csv(5));
    let running = database.run(&place, &server, "users.csv -o scored.csv -c 2");
    let running = running.start();
    server.wait_for_calls(5);
    let url = database.url();
    let copy = |from: &str, to: &str| place.rescore(["ledger", "copy", from, to]).done();
    copy(&url, "a").exits(0).prints("copied ");
    copy("a", &url).exits(75).says("is using the ledger");
    drop(release);
    running.exits(0);
    copy(&url, "a").exits(0).prints("5 now");
}

#[test]
fn hours_that_end_while_the_server_is_away_end_the_run_and_it_keeps_what_is_paid_for() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let database = Database::on(&cluster);
    database.init();
    let (server, release) = Server::holding(30);
    let place = Place::with("users.csv", users::csv(100));
    let args = "users.csv -o scored.csv -c 4 --progress plain --max-wait 1h --max-time 4s";
    let run = database.run(&place, &server, args).start();
    server.wait_for_calls(34);
    cluster.control(&["stop", "-m", "fast"]);
    drop(release);
    run.wait_for_words("waiting for the ledger's server");
    run.wait_for_words("`--max-time` is reached");
    cluster.control(&["start"]);
    run.exits(5).says("the same command continues");
    let rest = database.run(&place, &server, "users.csv -o scored.csv");
    rest.exits(0);
    assert_eq!(server.calls(), 100);
}
