//! The key and people's data: they go where they must, and nowhere else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::support::process::{Done, Place};
use crate::support::server::{Request, Server, answer, good, good_body, ok, raw};
use crate::support::users;

const SECRET: &str = "sk-live-0123456789abcdef";

/// Fails when any of `words` is in a stream or in a file that the run wrote.
fn nowhere(place: &Place, done: &Done, words: &[&str]) {
    for word in words {
        done.silent_about(word);
        for name in place.names() {
            let here = String::from_utf8_lossy(&place.read(&name)).contains(word);
            done.check(
                !here || name == "key.txt",
                &format!("`{name}` does not have `{word}`"),
            );
        }
    }
}

/// A log with every call, which must not say more than a message.
const LOG: [&str; 2] = ["--log", "n.log"];

/// Fails when any of these is in the log, or nothing is.
fn not_in_the_log(place: &Place, words: &[&str]) {
    let log = place.text("n.log");
    assert!(log.contains(r#""event":"attempt_"#), "{log}");
    for word in words {
        assert!(!log.contains(word), "`{word}` in {log}");
    }
}

/// Every header and the body, as a careless server or a debugging proxy sends them back.
fn echo(request: &Request) -> String {
    let headers: Vec<_> = request
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let body = String::from_utf8_lossy(&request.body).replace('"', "'");
    format!(
        r#"{{"error":{{"message":"you sent {} {body}"}}}}"#,
        headers.join(" ")
    )
}

#[test]
fn the_key_is_in_no_output_whatever_the_server_repeats() {
    let place = Place::with("users.csv", users::csv(6));
    let server = Server::start(|request| match request.nth {
        2 => answer(422, &[], &echo(request)),
        3 => ok(&echo(request)),
        4 => raw(format!("HTTP/1.1 200 {}\r\n\r\n", echo(request))).then_close(),
        5 => answer(500, &[], &echo(request)),
        _ => good(request),
    });
    let args = "users.csv -o scored.csv --summary summary.json --progress json --retries 0";
    let program = place.run(&server, args).args("-c 1 --resend-unknown 0");
    let done = program.args(LOG).env("RESCORE_API_KEY", SECRET).done();
    done.exits(1);
    assert_eq!(
        server.requests()[0].header("authorization"),
        Some(&*format!("Bearer {SECRET}"))
    );
    nowhere(&place, &done, &[SECRET]);
    // Files hold people's data on purpose; a terminal or a log must not show it.
    done.silent_about("User 2")
        .silent_about("user2@")
        .silent_about("192.0.2.2");
    not_in_the_log(&place, &["User", "@example", "192.0.2.", "Mozilla", SECRET]);
}

#[test]
fn no_host_that_an_answer_points_to_is_contacted() {
    let elsewhere = Server::good();
    let target = format!("{}/v1/validate/user", elsewhere.url());
    let server = Server::start(move |request| {
        let (link, refresh) = (
            format!("<{target}>; rel=preload"),
            format!("0; url={target}"),
        );
        let service = format!("h2=\"{}\"; ma=9", target.split('/').nth(2).unwrap());
        let headers = [
            ("location", target.as_str()),
            ("content-location", &target),
            ("refresh", &refresh),
            ("link", &link),
            ("alt-svc", &service),
        ];
        let early = format!("HTTP/1.1 103 Early Hints\r\nlink: {link}\r\n\r\n");
        let code = match request.nth {
            2 => 422,
            3 => 201,
            5 => 307,
            _ => 200,
        };
        raw(early).and(answer(code, &headers, &good_body(&request.name())))
    });
    let place = Place::with("users.csv", users::csv(9));
    let done = place.score(&server, "-c 1");
    done.exits(4)
        .says("error: the service redirects to another address; neither key nor data were sent there\n  the service said: 307 Temporary Redirect (JSON, 139 bytes)\n\nhint: check the base address, including `https://` and a missing or extra `/`")
        .says("the same command continues from there");
    // The redirect came during the run: rows paid for before it stay, and nothing was sent after it.
    assert_eq!(server.calls(), 5);
    assert_eq!(
        place.text("scored.csv.partial"),
        users::scored_without(&users::csv(4), |name| name == "User 2")
    );
    assert_eq!((elsewhere.connections(), elsewhere.calls()), (0, 0));
}

#[test]
fn a_refusal_that_repeats_key_and_person_shows_neither() {
    for code in [301, 401, 402, 403, 404] {
        let place = Place::with("users.csv", users::named(["Jane Doe"]));
        let server = Server::start(move |request| answer(code, &[], &echo(request)));
        let program = place.scoring(&server);
        let done = program.args(LOG).env("RESCORE_API_KEY", SECRET).done();
        done.exits(4);
        nowhere(&place, &done, &[SECRET]);
        done.silent_about("Jane Doe")
            .silent_about("user1@")
            .silent_about("192.0.2.1");
        not_in_the_log(&place, &["Jane", "user1@", "192.0.2.1"]);
    }
}

/// The text with every slash and every non-ASCII character escaped, as PHP and Python do it.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '/' => escaped += "\\/",
            c if c.is_ascii() => escaped.push(c),
            c => escaped += &format!("\\u{:04x}", u32::from(c)),
        }
    }
    escaped
}

#[test]
fn key_and_person_are_not_shown_however_the_server_escapes_them() {
    let key = "sk/live/abc+def==";
    for code in [200, 401, 402, 404, 422] {
        let place = Place::with("users.csv", users::named(["Jané/Doe"]));
        let server = Server::start(move |request| {
            let words = escaped(&format!("no user Jané/Doe with {key}"));
            match code {
                200 => ok(&format!(
                    "no user {} of Jané/Doe",
                    request.header("authorization").unwrap()
                )),
                _ => answer(code, &[], &format!(r#"{{"error":"{words}"}}"#)),
            }
        });
        let done = place
            .scoring(&server)
            .args(LOG)
            .env("RESCORE_API_KEY", key)
            .done();
        done.silent_about(key)
            .silent_about("Jané")
            .silent_about("live\\/abc");
        not_in_the_log(&place, &["Jan", "live", "user1@"]);
        for name in place.names() {
            let bytes = place.read(&name);
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(key), "{code} {name}");
        }
    }
}

#[test]
fn the_key_cannot_be_an_argument() {
    let (place, server) = (Place::with("users.csv", users::csv(1)), Server::good());
    let done = place.score(&server, ["--api-key", SECRET]);
    done.exits(2).silent_about(SECRET);
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_key_file_is_read_without_its_last_line_end_and_its_mode_is_looked_at() {
    let (place, server) = (Place::with("users.csv", users::csv(1)), Server::good());
    let program = || {
        place
            .run(&server, "users.csv -o scored.csv --overwrite")
            .without_env("RESCORE_API_KEY")
    };
    for content in [
        SECRET.to_owned(),
        format!("{SECRET}\n"),
        format!("{SECRET}\r\n"),
    ] {
        place.write("key.txt", content);
        fs::set_permissions(place.path("key.txt"), fs::Permissions::from_mode(0o600)).unwrap();
        let done = program().args("--api-key-file key.txt").done();
        done.exits(0).silent_about("key.txt");
        nowhere(&place, &done, &[SECRET]);
    }
    fs::set_permissions(place.path("key.txt"), fs::Permissions::from_mode(0o644)).unwrap();
    let done = program().env("RESCORE_API_KEY_FILE", "key.txt").done();
    done.exits(0)
        .says("key.txt")
        .says("chmod 600")
        .silent_about(SECRET);
    for request in server.requests() {
        assert_eq!(
            request.header("authorization"),
            Some(&*format!("Bearer {SECRET}"))
        );
    }
    program()
        .args("--api-key-file no-key.txt")
        .done()
        .exits(2)
        .says("no-key.txt");
}

#[test]
fn a_key_with_a_line_break_is_refused_and_not_shown() {
    let (place, server) = (Place::with("users.csv", users::csv(1)), Server::good());
    for key in [
        format!("{SECRET}\n{SECRET}"),
        format!("{SECRET}\r\nX-Evil: 1"),
        format!("{SECRET}\u{1b}[2J"),
    ] {
        let done = place.scoring(&server).env("RESCORE_API_KEY", &key).done();
        done.exits(2).says("API key").silent_about(SECRET);
        place.write("key.txt", &key);
        fs::set_permissions(place.path("key.txt"), fs::Permissions::from_mode(0o600)).unwrap();
        let program = place.run(&server, "users.csv -o scored.csv --api-key-file key.txt");
        program
            .without_env("RESCORE_API_KEY")
            .done()
            .exits(2)
            .silent_about(SECRET);
    }
    assert_eq!(server.calls(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_that_crashes_leaves_no_core_with_the_key_in_it() {
    const CORES: &str = "ulimit -c unlimited\nexec \"$@\"\n";
    let place = Place::with("users.csv", users::csv(1));
    place.write("cores.sh", CORES);
    // This only shows something if another program would leave a core.
    let other = Command::new("sh")
        .args(["cores.sh", "sh", "-c", "kill -ABRT $$"])
        .current_dir(place.path(""))
        .status()
        .unwrap();
    if !other.core_dumped() {
        println!("this system keeps no cores");
        return;
    }
    let (server, release) = Server::holding(0);
    let running = place.scoring(&server).under(&["sh", "cores.sh"]).start();
    server.wait_for_calls(1);
    running.signal("ABRT");
    let done = running.done();
    done.check(done.code().is_none(), "killed");
    done.check(!done.dumped_core(), "no core");
    drop(release);
}
