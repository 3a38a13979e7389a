//! Ledgers on a PostgreSQL server of the tests' own, where `TEST_POSTGRES` is set: a server that
//! goes away, runs that race, and people who look after it. Without the variable these tests pass
//! without doing anything.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

#[path = "../../../tests/support/postgres.rs"]
mod cluster;

use cluster::Cluster;
use rusqlite::params;

use super::support::*;
use crate::ledger::database::Purpose;
use crate::ledger::location::ServerUrl;
use crate::ledger::open::connect;
use crate::ledger::outputs::OutputState;
use crate::ledger::postgres::init;
use crate::ledger::{LedgerAdmin, RememberedLimit, preview};
use crate::telemetry::pace::FoundLimit;

/// A new schema with a ledger.
pub(super) struct Schema {
    pub(super) url: ServerUrl,
}

impl Schema {
    /// On the server that tests share.
    pub(super) fn shared() -> Option<Self> {
        static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
        let cluster = SHARED.get_or_init(Cluster::start).as_ref()?;
        Some(cluster.schema())
    }
}

impl Cluster {
    /// An address with these settings, over the network or the socket.
    fn url(&self, host: Option<&str>, settings: &str) -> ServerUrl {
        let (directory, port) = (self.directory.display(), self.port);
        let text = match host {
            Some(host) => format!("postgresql://ledger@{host}:{port}/postgres?{settings}"),
            None => {
                format!("postgresql://ledger@/postgres?host={directory}&port={port}&{settings}")
            }
        };
        ServerUrl::parse(&text).unwrap()
    }

    fn schema(&self) -> Schema {
        static SCHEMAS: AtomicUsize = AtomicUsize::new(0);
        let name = format!("t{}", SCHEMAS.fetch_add(1, Ordering::Relaxed));
        self.sql(&format!("CREATE SCHEMA {name}"));
        let url = self.url(None, &format!("options=-c%20search_path%3D{name}"));
        assert!(init(&url).unwrap());
        Schema { url }
    }

    /// Makes the server speak TLS with this certificate.
    fn encrypt(&self, certificate: &str) {
        let file = self.directory.join("server.pem");
        fs::write(&file, certificate).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        if let Some((user, group)) = self.user {
            chown(&file, Some(user), Some(group)).unwrap();
        }
        for setting in ["ssl_cert_file", "ssl_key_file"] {
            self.sql(&format!(
                "ALTER SYSTEM SET {setting} = '{}'",
                file.display()
            ));
        }
        self.sql("ALTER SYSTEM SET ssl = on");
        self.control(&["restart"]);
    }
}

fn path(url: &ServerUrl) -> PathBuf {
    url.to_string().into()
}

fn admin(url: &ServerUrl) -> crate::base::error::Result<LedgerAdmin> {
    LedgerAdmin::open(&LedgerLocation::Server(url.clone()))
}

/// Settings of a run that waits for the server for this time.
fn patient(url: &ServerUrl, output: &str, longest: Duration) -> LedgerSettings {
    LedgerSettings {
        wait: ServerWait::new(longest),
        ..settings(&path(url), output, Reuse::All)
    }
}

/// The row of a pace that runs share, asked with the time that it is to be; `None` without a
/// server.
pub(crate) fn pace_row() -> Option<impl FnMut(f64, &str) -> String> {
    let Schema { url } = Schema::shared()?;
    let location = LedgerLocation::Server(url);
    let mut database = connect(&location, Purpose::Look).unwrap().unwrap();
    Some(move |at, ask: &str| {
        let statement = format!("SELECT cast(ask_pace(1, $1, {at}) AS TEXT)");
        let rows = database.query(&statement, params![ask]);
        rows.unwrap()[0].get(0).unwrap()
    })
}

#[test]
fn four_runs_claim_each_request_once() {
    const REQUESTS: u64 = 1_000;
    let Some(Schema { url }) = Schema::shared() else {
        return;
    };
    let claim_all = |number: u64| {
        let mut run = Run::start(&path(&url), &format!("{number}.csv"), Reuse::All).unwrap();
        let mut requests: Vec<_> = (0..REQUESTS).collect();
        fastrand::Rng::with_seed(number).shuffle(&mut requests);
        let mut granted = Vec::new();
        for requests in requests.chunks(24) {
            let first = granted.len();
            for (request, result) in requests.iter().zip(run.claim(requests)) {
                match result {
                    ClaimResult::Granted { taken_over } => {
                        assert!(!taken_over);
                        granted.push(*request);
                    }
                    ClaimResult::Stored(found) => assert_eq!(score(&found), Some(*request)),
                    ClaimResult::Taken => {}
                    ClaimResult::Free => panic!("all of them are claimed"),
                }
            }
            // Half of them stay claimed.
            let kept: Vec<_> = granted[first..].iter().step_by(2).copied().collect();
            run.keep_answers(&kept);
        }
        (run, granted)
    };
    let claimed: Vec<_> = thread::scope(|scope| {
        let threads = [0, 1, 2, 3].map(|number| scope.spawn(move || claim_all(number)));
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let mut all: Vec<_> = claimed
        .into_iter()
        .flat_map(|(_, granted)| granted)
        .collect();
    all.sort_unstable();
    assert_eq!(all, (0..REQUESTS).collect::<Vec<_>>());
}

#[test]
fn what_was_acknowledged_is_there_after_the_server_has_crashed() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let url = cluster.schema().url;
    let settings = patient(&url, "a.csv", Duration::from_secs(60));
    // As a run does it: before it starts, when nothing else is waited for yet.
    let mut lookup = OpenLedger::open(&settings).unwrap().lookup().unwrap();
    let mut run = Run::start_with(&settings).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (kept, waited) = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut kept, mut number) = (Vec::new(), 0);
            while !stop.load(Ordering::Relaxed) {
                let group: Vec<_> = (number..number + 8).collect();
                run.claim(&group);
                run.keep_answers(&group);
                kept.extend(group);
                let found = lookup.look_up(&[run.key(number)]).unwrap();
                assert_eq!(score(&found[0]), Some(number));
                number += 8;
            }
            kept
        });
        let mut waited = Vec::new();
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(700));
            cluster.control(&["stop", "-m", "immediate"]);
            let stopped = std::time::Instant::now();
            while settings.wait.why().is_none() {
                let is_soon = stopped.elapsed() < Duration::from_secs(20);
                assert!(is_soon, "it says why it waits");
                thread::sleep(Duration::from_millis(10));
            }
            waited.extend(settings.wait.why());
            cluster.control(&["start"]);
        }
        thread::sleep(Duration::from_secs(3));
        stop.store(true, Ordering::Relaxed);
        (writer.join().unwrap(), waited)
    });
    assert!(!kept.is_empty(), "{waited:?}");
    assert_eq!(settings.wait.why(), None);
    for (request, found) in kept.iter().zip(run.look_up(&kept)) {
        assert_eq!(score(&found), Some(*request));
    }
}

#[test]
fn a_server_that_stays_away_is_waited_for_and_then_the_run_says_what_is_lost() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let url = cluster.schema().url;
    let mut run = Run::start_with(&patient(&url, "a.csv", Duration::from_secs(2))).unwrap();
    let lookup = &mut run.ledger.lookup().unwrap();
    run.claim(&[1]);
    cluster.control(&["stop", "-m", "fast"]);
    let work = run.answers(&[(1, answer(1)), (2, answer(2))]);
    let started = std::time::Instant::now();
    let error = run.write(&work).unwrap_err().words;
    assert!(started.elapsed() > Duration::from_secs(2));
    assert!(error.contains("has not answered for"), "{error}");
    let lost = "; paid answers that could not be stored: 2";
    assert!(error.ends_with(lost), "{error}");
    assert_eq!(lookup.look_up(&[run.key(1)]).unwrap_err().exit().code(), 3);
    let error = Run::start(&path(&url), "b.csv", Reuse::All).err().unwrap();
    assert_eq!(error.exit().code(), 3, "{}", error.report());
    cluster.control(&["start"]);
    assert!(run.write(&work).is_ok());
}

/// A proxy in front of a server, which hangs as long as this is true: its port.
fn proxy(server: u16, hangs: &Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, hangs) = (listener.local_addr().unwrap().port(), Arc::clone(hangs));
    let pass_on = move |mut from: TcpStream, mut to: TcpStream| {
        let hangs = Arc::clone(&hangs);
        thread::spawn(move || {
            let mut bytes = [0; 4_096];
            loop {
                let read = from.read(&mut bytes).unwrap_or(0);
                while hangs.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(10));
                }
                if read == 0 || to.write_all(&bytes[..read]).is_err() {
                    return drop(to.shutdown(Shutdown::Both));
                }
            }
        });
    };
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            let server = TcpStream::connect(("127.0.0.1", server)).unwrap();
            pass_on(client.try_clone().unwrap(), server.try_clone().unwrap());
            pass_on(server, client);
        }
    });
    port
}

#[test]
fn a_run_needs_one_connection_and_replaces_one_that_hangs() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    init(&cluster.url(None, "")).unwrap();
    cluster.sql(
        "CREATE ROLE scorer LOGIN PASSWORD 'x' CONNECTION LIMIT 1;
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO scorer",
    );
    let hangs = Arc::new(AtomicBool::new(false));
    let port = proxy(cluster.port, &hangs);
    let url = ServerUrl::parse(&format!("postgresql://scorer:x@127.0.0.1:{port}/postgres"));
    let settings = LedgerSettings {
        wait: ServerWait::new(Duration::from_secs(60)),
        location: LedgerLocation::Server(url.unwrap()),
        ..settings(Path::new("unused"), "a.csv", Reuse::All)
    };
    let mut run = Run::start_with(&settings).unwrap();
    run.keep_answers(&[1]);
    assert_eq!(score(&run.look_up(&[1])[0]), Some(1));
    hangs.store(true, Ordering::Relaxed);
    let why = thread::scope(|scope| {
        let why = scope.spawn(|| {
            loop {
                if let Some(why) = settings.wait.why() {
                    hangs.store(false, Ordering::Relaxed);
                    return why;
                }
                thread::sleep(Duration::from_millis(10));
            }
        });
        run.keep_answers(&[2]);
        why.join().unwrap()
    });
    assert!(why.ends_with("no answer within 20 s"), "{why}");
    assert_eq!(settings.wait.why(), None);
    assert_eq!(score(&run.look_up(&[2])[0]), Some(2));
}

#[test]
fn runs_on_two_hosts_to_outputs_of_one_path_do_not_take_each_other_for_themselves() {
    let Some(Schema { url }) = Schema::shared() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("srv");
    let start = || {
        Run::start_with(&LedgerSettings {
            output: Some(place.join("a.csv")),
            ..settings(&path(&url), "", Reuse::All)
        })
    };
    fs::create_dir(&place).unwrap();
    let mut first = start().unwrap();
    first.claim(&[1, 2]);
    // As on another host: another directory under the same name.
    fs::rename(&place, directory.path().join("other")).unwrap();
    fs::create_dir(&place).unwrap();
    let error = start().map(drop).unwrap_err();
    assert_eq!(error.exit().code(), 75, "{}", error.report());
    first.renew().unwrap();
    first.leave(0);
    let mut second = start().unwrap();
    assert_eq!(second.facts.run.previous, Some(RunEnd::Stopped));
    assert!(first.renew().is_err());
    second.renew().unwrap();
}

#[test]
fn a_run_a_look_and_people_who_look_after_it_see_the_same_ledger() {
    let Some(Schema { url }) = Schema::shared() else {
        return;
    };
    assert!(!init(&url).unwrap(), "it is there");
    let directory = tempfile::tempdir().unwrap();
    let [input, output] = ["in.csv", "out.csv"].map(|name| directory.path().join(name));
    let settings = LedgerSettings {
        output: Some(output.clone()),
        input: Some(input.clone()),
        ..settings(&path(&url), "", Reuse::All)
    };
    let mut run = Run::start_with(&settings).unwrap();
    run.keep(&[(1, answer(1)), (2, answer(2)), (3, failure())]);
    fs::write(&output, "rows").unwrap();
    let written = fs::metadata(&output).unwrap();
    run.record(&[(output.clone(), written)], &input);
    let rate = 50.0;
    let limit = RememberedLimit {
        limit: FoundLimit {
            rate: Some(rate),
            in_flight: None,
        },
        found: std::time::SystemTime::now() - Duration::from_secs(9),
    };
    let work = Group {
        limit: Some(limit),
        ..Group::default()
    };
    run.write(&work).unwrap();
    let look = LedgerSettings {
        account: None,
        ..settings.clone()
    };
    let (mut lookup, found) = preview(&look).unwrap().unwrap();
    assert!(found.run.continues);
    assert_eq!(found.endpoint.as_deref(), Some("https://scripted.test"));
    let key = found.hasher.key(b"{\"request\":2}");
    assert_eq!(score(&lookup.look_up(&[key]).unwrap()[0]), Some(2));
    assert_eq!(admin(&url).map(drop).unwrap_err().exit().code(), 75);
    run.leave(5);
    run.end(RunEnd::Finished { failed: 1 });
    drop(run);

    let mut next = Run::start_with(&settings).unwrap();
    assert_eq!(
        next.facts.run.previous,
        Some(RunEnd::Finished { failed: 1 })
    );
    assert_eq!(next.facts.remembered_limit.unwrap().limit.rate, Some(rate));
    assert_eq!((next.facts.answers, next.facts.run.abandoned), (2, 0));
    let state = next.ledger.output_state(&output, Some(&input)).unwrap();
    assert_eq!(state, OutputState::AsLeft);
    next.leave(0);
    for (reuse, expected) in [
        (Reuse::Nothing, (2, false)),
        (recent(Duration::from_secs(3_600)), (2, true)),
    ] {
        let fresh = LedgerSettings {
            output: Some(directory.path().join("other.csv")),
            reuse,
            ..settings.clone()
        };
        let mut run = Run::start_with(&fresh).unwrap();
        assert_eq!((run.facts.answers, run.facts.has_usable), expected);
        run.leave(0);
    }
    let seen = admin(&url).unwrap().stats().unwrap();
    assert_eq!((seen.answers, seen.accounts.len()), (3, 1));
    assert!(seen.accounts[0].limit.is_some() && seen.bytes > 8_192);

    let mut admin = admin(&url).unwrap();
    let hasher = &seen.accounts[0].hasher;
    let keys = [9, 2].map(|it| hasher.key(format!("{{\"request\":{it}}}").as_bytes()));
    assert_eq!(admin.forget(&keys, |_| Ok(())).unwrap().answers, 1);
    assert_eq!(admin.stats().unwrap().answers, 2);
    let later = std::time::SystemTime::now() + Duration::from_secs(60);
    assert_eq!(admin.prune(later, |_| Ok(())).unwrap().answers, 2);
    let last = Run::start_with(&settings).unwrap();
    assert_eq!((last.facts.answers, last.facts.remembered_limit), (0, None));
}

#[test]
fn a_server_that_accepts_connections_and_says_nothing_is_given_up() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let url = format!("postgresql://ledger@{address}/x?connect_timeout=1");
    let error = init(&ServerUrl::parse(&url).unwrap()).unwrap_err();
    assert_eq!(error.exit().code(), 3);
    assert!(error.report().contains("no answer within"));
}

#[test]
fn a_user_who_may_write_the_tables_can_run_but_only_their_owner_rewrites_them() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let owner = cluster.url(None, "");
    init(&owner).unwrap();
    let scorer = owner.to_string().replace("ledger@", "scorer@");
    let grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO scorer";
    cluster.sql("CREATE ROLE scorer LOGIN");
    let error = Run::start(Path::new(&scorer), "a.csv", Reuse::All)
        .err()
        .unwrap();
    assert_eq!(error.exit().code(), 2);
    assert!(
        error
            .report()
            .contains(&grant.replace("scorer", "\"scorer\"")),
        "{}",
        error.report()
    );
    cluster.sql(grant);
    let mut run = Run::start(Path::new(&scorer), "a.csv", Reuse::All).unwrap();
    assert_eq!(
        run.claim(&[1]),
        [ClaimResult::Granted { taken_over: false }]
    );
    run.keep_answers(&[1]);
    run.leave(1);
    // Before anything is removed.
    let refused = |it: &str| admin(&ServerUrl::parse(it).unwrap()).err();
    let error = refused(&scorer).unwrap();
    assert_eq!(error.exit().code(), 2);
    let (report, grant) = (error.report(), "GRANT ledger TO scorer");
    assert!(report.contains(grant), "{report}");
    cluster.sql(grant);
    assert!(refused(&scorer).is_none());
    assert!(refused(&owner.to_string()).is_none());
    cluster.sql("UPDATE meta SET version = 9");
    let error = Run::start(Path::new(&scorer), "a.csv", Reuse::All).err();
    let error = error.unwrap();
    assert_eq!(error.exit().code(), 2);
    assert!(error.report().contains("version 9"), "{}", error.report());
}

#[test]
fn a_server_that_takes_no_writes_is_told_from_one_that_is_away() {
    let Some(schema) = Schema::shared() else {
        return;
    };
    let location = LedgerLocation::Server(schema.url.clone());
    let mut database = connect(&location, Purpose::Admin).unwrap().unwrap();
    let fault = database
        .query("SELECT 's3cret'::bigint", &[])
        .err()
        .unwrap();
    assert_eq!(fault.words, "SQLSTATE 22P02", "no value is shown");
    let read_only = schema.url.to_string() + "%20-c%20default_transaction_read_only%3Don";
    let error = Run::start(Path::new(&read_only), "a.csv", Reuse::All)
        .err()
        .unwrap();
    assert_eq!(error.exit().code(), 2);
    assert!(
        error.report().contains("name the primary"),
        "{}",
        error.report()
    );
}

/// For 127.0.0.1, with its key; and the authority that signed it.
const CERTIFICATE: &str = include_str!("../../../tests/support/tls/good.pem");
const AUTHORITY: &str = include_str!("../../../tests/support/tls/authority.pem");

#[test]
fn passwords_and_certificates_are_checked_and_passwords_are_not_shown() {
    let Some(cluster) = Cluster::start() else {
        return;
    };
    let error = |host: &str, settings: &str| {
        let error = init(&cluster.url(Some(host), settings)).unwrap_err();
        assert_eq!(error.exit().code(), 2);
        error.report()
    };
    let good = "password=correct%20horse";
    assert!(init(&cluster.url(Some("127.0.0.1"), good)).unwrap());
    let report = error("127.0.0.1", "password=wrong-one");
    assert!(
        report.contains("authentication failed") && !report.contains("wrong-one"),
        "{report}"
    );
    assert!(error("127.0.0.1", "").contains("PGPASSWORD"));
    let required = format!("{good}&sslmode=verify-full");
    assert!(error("127.0.0.1", &required).contains("does not support TLS"));

    cluster.encrypt(CERTIFICATE);
    let authority = cluster.directory.join("root.pem");
    fs::write(&authority, AUTHORITY).unwrap();
    let trusted = format!("{good}&sslrootcert={}", authority.display());
    assert!(!init(&cluster.url(Some("127.0.0.1"), &trusted)).unwrap());
    for settings in [good, &required] {
        let report = error("127.0.0.1", settings);
        assert!(report.contains("invalid peer certificate"), "{report}");
        assert!(report.contains("?sslrootcert=FILE"), "{report}");
    }
    let report = error("localhost", &trusted);
    assert!(report.contains("not valid for name"), "{report}");
    assert!(report.contains("as its certificate does"), "{report}");
}
