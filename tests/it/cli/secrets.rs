//! The key and people's data: they go where they must, and nowhere else.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::support::process::{Done, Place};
use crate::support::server::{Request, Server, answer, good, good_body, ok, raw};
use crate::support::users;

const SECRET: &str = "sk-live-0123456789abcdef";

/// Fails when any of `words` is in a stream, or the key in any file.
fn nowhere(place: &Place, done: &Done, key: &str, words: &[&str]) {
    for word in [&[key], words].concat() {
        done.silent_about(word);
        // Files hold people's data on purpose; a log must not.
        for name in place.names() {
            let here = String::from_utf8_lossy(&place.read(&name)).contains(word);
            let may_be = name == "key.txt" || word != key && name != "n.log";
            done.check(!here || may_be, &format!("`{name}` does not have `{word}`"));
        }
    }
    let log = place.text("n.log");
    done.check(log.contains(r#""event":"attempt_"#), "a log of the calls");
}

/// Every header and the body, as a careless server or a debugging proxy sends them back.
fn echo(request: &Request) -> String {
    let headers = request.headers.iter();
    let headers: String = headers
        .map(|(name, value)| format!("{name}: {value} "))
        .collect();
    let body = String::from_utf8_lossy(&request.body).replace('"', "'");
    format!(r#"{{"error":{{"message":"you sent {headers}{body}"}}}}"#)
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
    let args =
        "-c 1 --summary summary.json --progress json --retries 0 --resend-unknown 0 --log n.log";
    let program = place.scoring(&server).args(args);
    let done = program.env("RESCORE_API_KEY", SECRET).exits(1);
    let sent = format!("Bearer {SECRET}");
    assert_eq!(server.requests()[0].header("authorization"), Some(&*sent));
    nowhere(
        &place,
        &done,
        SECRET,
        &["User 2", "@example", "192.0.2.", "Mozilla"],
    );
}

/// The text with every slash and every non-ASCII character escaped, as PHP and Python do it.
fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '/' => "\\/".to_owned(),
        c if c.is_ascii() => c.to_string(),
        c => format!("\\u{:04x}", u32::from(c)),
    };
    text.chars().map(escape).collect()
}

#[test]
fn a_refusal_shows_neither_key_nor_person_however_the_server_escapes_them() {
    let key = "sk/live/abc+def==";
    for code in [200, 301, 401, 402, 403, 404, 422] {
        for is_escaped in [false, true] {
            let place = Place::with("users.csv", users::named(["Jané/Doe"]));
            let server = Server::start(move |request| {
                let words = escaped(&format!("no user Jané/Doe with {key}"));
                let words = format!(r#"{{"error":"{words}"}}"#);
                answer(code, &[], &(if is_escaped { words } else { echo(request) }))
            });
            let once = "--retries 0 --resend-unknown 0 --log n.log";
            let run = place.scoring(&server).args(once);
            let done = run.env("RESCORE_API_KEY", key).done();
            nowhere(
                &place,
                &done,
                key,
                &["Jan\u{e9}", "Jan\\u", "live", "user1@", "192.0.2.1"],
            );
        }
    }
}

#[test]
fn a_person_is_shown_in_no_form_and_the_rejects_have_the_whole_words() {
    // Three of them, so that the run stops and says why.
    let row = "Agnieszka Zoltowska,Aga.Z82@Firma.example,+4915112345678,203.0.113.17";
    let rows = [1, 2, 3].map(|ip| format!("{row}{ip},Mozilla/5.0\n"));
    let csv = format!("name,email,phone,ip,user_agent\n{}", rows.concat());
    // A refused row, useless answers and a refused run; and a code that shows nothing.
    let codes = [422, 200, 402].into_iter().cycle();
    let forms = [
        "Agnieszka",
        "ZOLTOWSKA",
        "Agn***",
        "aga.z82@firma.example",
        "aga.z82%40firma.example",
        "4915112345678",
        "0151 12345678",
        "203-0-113-171",
        "QWduaWVzemthIFpvbHRvd3NrYQ==",
    ];
    for (form, code) in forms.into_iter().zip(codes) {
        let server = Server::start(move |_| {
            let words = format!(r#"{{"error":{{"code":"E_77","message":"not for {form}"}}}}"#);
            answer(code, &[], &words)
        });
        let place = Place::with("users.csv", &csv);
        let run = place.scoring(&server).args("--retries 0 --log n.log");
        let done = run.args("--summary summary.json").done();
        done.silent_about(form).says("`E_77`");
        for name in ["n.log", "summary.json"] {
            done.check(!place.text(name).contains(form), name);
        }
        if code != 402 {
            let rejects = place.text("scored.rejects.csv.partial");
            assert!(rejects.contains(&format!("not for {form}")), "{rejects}");
        }
    }
}

#[test]
fn no_host_that_an_answer_points_to_is_contacted() {
    let elsewhere = Server::good();
    let target = format!("{}/v1/validate/user", elsewhere.url());
    let server = Server::start(move |request| {
        let link = format!("<{target}>; rel=preload");
        let refresh = format!("0; url={target}");
        let service = format!("h2=\"{}\"; ma=9", target.split('/').nth(2).unwrap());
        let headers = [
            ("location", target.as_str()),
            ("content-location", &target),
            ("refresh", &refresh),
            ("link", &link),
            ("alt-svc", &service),
        ];
        let early = format!("HTTP/1.1 103 Early Hints\r\nlink: {link}\r\n\r\n");
        let code = [200, 422, 201, 200, 307][(request.nth - 1).min(4)];
        raw(early).and(answer(code, &headers, &good_body(&request.name())))
    });
    let place = Place::with("users.csv", users::csv(9));
    let done = place.score(&server, "-c 1");
    done.exits(4);
    // The redirect came during the run: rows paid for before it stay, and nothing was sent after it.
    assert_eq!(server.calls(), 5);
    let expected = users::scored_without(&users::csv(4), |name| name == "User 2");
    assert_eq!(place.text("scored.csv.partial"), expected);
    assert_eq!((elsewhere.connections(), elsewhere.calls()), (0, 0));
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
    for (content, mode) in [
        (SECRET.to_owned(), 0o600),
        (format!("{SECRET}\r\n"), 0o600),
        (format!("{SECRET}\n"), 0o644),
    ] {
        place.write("key.txt", content);
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(place.path("key.txt"), permissions).unwrap();
        let run = place.scoring(&server).without_env("RESCORE_API_KEY");
        let run = run.args("--overwrite --fresh --api-key-file key.txt --log n.log");
        let done = run.exits(0);
        let is_warned = done.stderr.contains("chmod 600");
        done.check(
            is_warned == (mode != 0o600),
            "a warning where others can read it",
        );
        nowhere(&place, &done, SECRET, &[]);
    }
    assert_eq!(server.calls(), 3);
    let sent = format!("Bearer {SECRET}");
    for request in server.requests() {
        assert_eq!(request.header("authorization"), Some(&*sent));
    }
}

#[test]
fn a_key_with_a_line_break_is_refused_and_not_shown() {
    let (place, server) = (Place::with("users.csv", users::csv(1)), Server::good());
    for end in ["\nmore", "\r\nX-Evil: 1", "\u{1b}[2J"] {
        let key = format!("{SECRET}{end}");
        place.write("key.txt", &key);
        let of_variable = place.scoring(&server).env("RESCORE_API_KEY", &key);
        let of_file = place.scoring(&server).without_env("RESCORE_API_KEY");
        for run in [of_variable, of_file.args("--api-key-file key.txt")] {
            run.exits(2).says("API key").silent_about(SECRET);
        }
    }
    assert_eq!(server.calls(), 0);
}

#[test]
#[cfg(target_os = "linux")]
fn a_run_that_crashes_leaves_no_core_with_the_key_in_it() {
    let place = Place::with("users.csv", users::csv(1));
    place.write("cores.sh", "ulimit -c unlimited\nexec \"$@\"\n");
    // This only shows something if another program would leave a core.
    let mut other = Command::new("sh");
    let other = other.args(["cores.sh", "sh", "-c", "kill -ABRT $$"]);
    let other = other.current_dir(place.path("")).status().unwrap();
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

#[test]
fn what_may_be_the_address_of_a_database_is_neither_shown_nor_taken_for_a_file() {
    let (place, server) = (Place::with("users.csv", users::csv(1)), Server::good());
    let password = "s3cret";
    for address in [
        "host=db1 password=s3cret",
        "POSTGRESQL://ann:s3cret@db1/x",
        " postgresql://ann:s3cret@db1/x",
        "mysql://ann:s3cret@db1/x",
        "ann:s3cret@db1/x",
    ] {
        place.write("settings.toml", format!("ledger = \"{address}\"\n"));
        let options = || {
            let run = place.run_at(server.url()).without_env("RESCORE_LEDGER");
            run.args("--summary s.json --log n.log")
        };
        for run in [
            options().args(["--ledger", address]),
            options().env("RESCORE_LEDGER", address),
            options().args("--config settings.toml"),
            place.rescore(["check", "users.csv", "--ledger", address]),
            place.rescore(["ledger", "stats", address]),
            place.rescore(["ledger", "copy", "a.ledger", address]),
            place.rescore(["ledger", "init", address]),
        ] {
            let done = run.exits(2);
            done.says("cannot read the address of the ledger's server")
                .silent_about(password);
        }
        let config = place.rescore("config --config settings.toml").exits(0);
        config.silent_about(password);
    }
    // Without quotes, a shell makes two arguments of it.
    for wrong in ["password=s3cret", "postgresql://ann:s3cret@db1/x"] {
        let done = place.rescore(["ledger", "stats", "x", wrong]);
        done.exits(2).silent_about(password);
        let run = place.run_at(server.url());
        let run = run.args(["--ledger", "host=db1", wrong, "--summary", "s.json"]);
        run.exits(2).silent_about(password);
    }
    assert_eq!(place.names(), ["settings.toml", "users.csv"]);
    assert_eq!(server.calls(), 0);
}
