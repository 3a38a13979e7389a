//! The key file during a run: keys are rotated, and a run of several days must survive that.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use serde_json::Value;

use crate::support::process::{Done, Place, Program};
use crate::support::server::{Action, Request, Server, answer, good, status};
use crate::support::stand_in::StandIn;
use crate::support::users;

const OLD: &str = "sk-live-old-0123456789";
/// It contains the old key, as keys with a version suffix do.
const NEW: &str = "sk-live-old-0123456789-v2";
const ROWS: usize = 300;
/// For how many calls the old key is accepted.
const GOOD_FOR: usize = 100;
const CONCURRENCY: usize = 8;
const RENEWED: &str = "a new API key was read from its file; continuing with it";

/// 300 users, and the old key in `key.txt`.
fn place() -> Place {
    let place = Place::with("users.csv", users::csv(ROWS));
    rotate(&place.path("key.txt"), OLD);
    place
}

/// Replaces the key file by one with this content, as a rotation should do it.
fn rotate(file: &Path, content: impl AsRef<[u8]>) {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock();
    let beside = file.with_extension("new");
    fs::write(&beside, content).unwrap();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(&beside, file).unwrap();
}

fn key_of(request: &Request) -> &str {
    let authorization = request.header("authorization").unwrap();
    authorization.strip_prefix("Bearer ").unwrap()
}

/// Accepts the old key for the first calls, then only the new one.
fn rotated(request: &Request) -> Action {
    match (key_of(request), request.nth) {
        (OLD, ..=GOOD_FOR) | (NEW, _) => good(request),
        _ => status(401),
    }
}

fn program<'a>(place: &'a Place, server: &'a Server) -> Program<'a> {
    let program = place.scoring(server).args("--retries 0");
    let program = program.args(["-c", &CONCURRENCY.to_string(), "--summary", "summary.json"]);
    let program = program.without_env("RESCORE_API_KEY");
    program.env("RESCORE_API_KEY_FILE", "key.txt")
}

/// The same with one call at a time.
fn in_turn<'a>(place: &'a Place, server: &'a Server) -> Program<'a> {
    let program = place.scoring(server).args("--retries 0 -c 1");
    let program = program.without_env("RESCORE_API_KEY");
    program.env("RESCORE_API_KEY_FILE", "key.txt")
}

/// Fails when a key is in a stream or in a file that the run wrote.
fn no_key_is_shown(place: &Place, done: &Done) {
    done.silent_about("0123456789");
    for name in place.names() {
        let bytes = place.read(&name);
        let shown = name != "key.txt" && bytes.windows(10).any(|part| part == b"0123456789");
        done.check(!shown, &format!("`{name}` has no key"));
    }
}

fn keys_renewed(place: &Place) -> Value {
    let summary = place.json("summary.json");
    summary["keys_renewed"].clone()
}

#[test]
fn a_key_file_rotated_before_the_old_key_ends_is_read_again_and_the_run_continues() {
    let place = place();
    let file = place.path("key.txt");
    let written = OnceLock::new();
    let server = Server::start(move |request| {
        if request.nth == GOOD_FOR / 2 {
            // This time with a line end, as editors write it.
            rotate(&file, format!("{NEW}\n"));
            written.set(()).unwrap();
        } else if request.nth > GOOD_FOR {
            written.wait();
        }
        rotated(request)
    });
    let done = program(&place, &server).exits(0);
    let said = done.stderr.matches(RENEWED).count();
    done.check(said == 1, "one message per renewal");
    assert!(place.text("scored.csv") == users::scored(&users::csv(ROWS)));
    let refused = server.calls() - ROWS;
    let right = (1..=CONCURRENCY).contains(&refused);
    done.check(right, "only calls in flight were refused");
    assert_eq!(keys_renewed(&place), 1);
    no_key_is_shown(&place, &done);
    // The old key stays in use while it is accepted, and is never sent again afterwards.
    let keys: Vec<_> = server.requests().iter().map(|r| key_of(r) == NEW).collect();
    let first = keys.iter().position(|new| *new).unwrap();
    done.check(first > GOOD_FOR, "the file is read after a 401 only");
    let late = keys[first..].iter().filter(|new| !**new).count();
    done.check(late <= CONCURRENCY, "nothing new goes out with the old key");
}

#[test]
fn a_key_rotated_in_systemds_credentials_or_behind_a_link_is_read_again() {
    let place = Place::with("users.csv", users::csv(ROWS));
    // As Kubernetes does it: the file is a link, and what changes is where it leads.
    for (version, key) in [("v1", OLD), ("v2", NEW)] {
        rotate(&place.path(version), key);
    }
    let link = place.path("rescore-api-key");
    std::os::unix::fs::symlink(place.path("v1"), &link).unwrap();
    let second = place.path("v2");
    let rotation = OnceLock::new();
    let server = Server::start(move |request| {
        // At the moment the old key is refused, before the program knows.
        if request.nth > GOOD_FOR && rotation.set(()).is_ok() {
            let beside = link.with_extension("new");
            std::os::unix::fs::symlink(&second, &beside).unwrap();
            fs::rename(&beside, &link).unwrap();
        }
        rotated(request)
    });
    let done = in_turn(&place, &server)
        .without_env("RESCORE_API_KEY_FILE")
        .env("CREDENTIALS_DIRECTORY", ".")
        .exits(0);
    done.says(RENEWED).silent_about("0123456789");
    assert_eq!(server.calls(), ROWS + 1);
}

#[test]
fn a_key_file_that_has_not_changed_or_is_unusable_stops_the_run_and_says_what_is_wrong() {
    type Spoil = fn(&Path);
    let cases: [(Spoil, &str); 4] = [
        (|_| {}, "`key.txt` was read again and has the same API key"),
        (|file| fs::remove_file(file).unwrap(), "no such file"),
        (
            |file| rotate(file, format!("{NEW}\n{NEW}\n")),
            "contains a line break",
        ),
        (
            // A pipe without a writer: opening it would block for ever.
            |file| {
                fs::remove_file(file).unwrap();
                let made = std::process::Command::new("mkfifo").arg(file).status();
                assert!(made.unwrap().success());
            },
            "it is not a regular file",
        ),
    ];
    for (spoil, said) in cases {
        let place = place();
        let file = place.path("key.txt");
        let server = Server::start(move |request| {
            if request.nth == GOOD_FOR {
                spoil(&file);
            }
            rotated(request)
        });
        let done = in_turn(&place, &server).exits(4);
        done.says(said).silent_about("0123456789");
        assert_eq!(server.calls(), GOOD_FOR + 1, "{done}");
    }
}

#[test]
fn a_new_key_that_is_refused_as_well_stops_the_run_within_the_calls_in_flight() {
    let place = place();
    let file = place.path("key.txt");
    let server = Server::start(move |request| {
        if request.nth > GOOD_FOR {
            // A different key at each read: they must not be tried one after the other.
            rotate(&file, format!("{NEW}-{}", request.nth));
            return status(401);
        }
        good(request)
    });
    let done = program(&place, &server).exits(4);
    done.says("the new one is refused as well")
        .silent_about("0123456789");
    done.check(
        server.calls() <= GOOD_FOR + 2 * CONCURRENCY,
        "each call in flight is tried with the new key once at most",
    );
    assert_eq!(keys_renewed(&place), 1);
}

#[test]
fn neither_the_old_nor_the_new_key_is_shown_whichever_the_server_repeats() {
    let place = place();
    let file = place.path("key.txt");
    let written = OnceLock::new();
    let server = Server::start(move |request| {
        if request.nth > GOOD_FOR {
            written.get_or_init(|| rotate(&file, NEW));
        }
        let words = format!(r#"{{"error":"{OLD} was replaced by {NEW}"}}"#);
        match request.nth {
            nth if nth > 2 * GOOD_FOR => answer(401, &[], &words),
            // Nothing is out with the old one any more: before, nobody could know its successor.
            nth if nth > GOOD_FOR + 2 * CONCURRENCY && nth % 9 == 0 => answer(422, &[], &words),
            _ => rotated(request),
        }
    });
    let done = program(&place, &server).args("--progress json").exits(4);
    done.says("401 Unauthorized (JSON, ");
    done.silent_about("was replaced by");
    done.says("\"keys_renewed\":1");
    let rejects = place.text("scored.rejects.csv.partial");
    done.check(
        rejects.contains("422 Unprocessable Entity (JSON, ") && !rejects.contains("was replaced"),
        "rejects have no words with a key",
    );
    no_key_is_shown(&place, &done);
}

#[test]
fn a_key_is_not_looked_up_again_if_it_is_in_a_variable_or_was_refused_at_the_first_call() {
    let (place, server) = (place(), Server::start(rotated));
    let done = program(&place, &server)
        .without_env("RESCORE_API_KEY_FILE")
        .env("RESCORE_API_KEY", OLD)
        .exits(4);
    done.silent_about("a new API key")
        .silent_about("0123456789");
    assert!(server.calls() <= GOOD_FOR + CONCURRENCY, "{done}");

    let file = place.path("key.txt");
    let server = Server::start(move |_| {
        rotate(&file, NEW);
        status(401)
    });
    let done = program(&place, &server)
        .args("--fresh --overwrite")
        .exits(4);
    done.silent_about("a new API key");
    assert_eq!(server.calls(), 1);
}

#[test]
fn a_rotation_can_be_rehearsed_with_the_stand_in() {
    let place = Place::with("users.csv", users::csv(400));
    rotate(&place.path("key.txt"), OLD);
    let slow = ["--latency", "20ms", "--accept-key"];
    let before = StandIn::start(&place, [&slow[..], &[OLD]].concat());
    let program = place.run_at(before.url()).args("-c 4");
    let program = program.without_env("RESCORE_API_KEY");
    let program = program.env("RESCORE_API_KEY_FILE", "key.txt");
    let running = program.start();
    running.wait_for_file("scored.csv.partial", |partial| !partial.is_empty());
    let address = before.address();
    before.stop().exits(0).silent_about("0123456789");
    rotate(&place.path("key.txt"), NEW);
    let after = StandIn::start_at(&place, &address, [&slow[..], &[NEW]].concat());
    running.exits(0).says(RENEWED);
    assert!(after.bill()["refused"].as_u64() > Some(0));
}
