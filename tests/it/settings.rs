//! What a person types or puts into variables: what each setting does, and the words when it cannot be meant.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use crate::process::{Done, KEY, Place, Program};
use crate::server::{Action, Request, Server, good, ok, status};
use crate::users::{self, Verdict};

/// `users.csv` and a good server whose address stands in a variable, so that every argument is free for the test.
struct Desk {
    place: Place,
    server: Server,
}

impl Desk {
    fn new() -> Self {
        Self {
            place: Place::with("users.csv", users::csv(3)),
            server: Server::good(),
        }
    }

    /// `users.csv` to `scored.csv` with these arguments.
    fn typed(&self, arguments: &[&str]) -> Program<'_> {
        let program = self
            .place
            .rescore(["run", "users.csv", "-o", "scored.csv"])
            .env("RESCORE_BASE_URL", self.server.url())
            .env("RESCORE_SERVICE_ID", "test")
            .env("RESCORE_API_KEY", KEY)
            .env("RESCORE_RATE", "unlimited");
        arguments.iter().fold(program, Program::arg)
    }

    /// Ends with exit code 2 and all of these words; nothing is sent, printed or left.
    #[track_caller]
    fn refuses(&self, program: Program<'_>, words: &[&str]) -> Done {
        let done = program.done();
        done.exits(2).says("error:");
        for words in words {
            done.says(words);
        }
        done.check(done.stdout.is_empty(), "nothing on standard output");
        done.check(self.server.connections() == 0, "nothing is sent");
        done.check(self.place.names() == ["users.csv"], "no file is left");
        done
    }

    #[track_caller]
    fn refuses_typed(&self, arguments: &[&str], words: &[&str]) {
        self.refuses(self.typed(arguments), words);
    }
}

/// The last cell of every row.
fn decisions(scored: &str) -> Vec<&str> {
    scored
        .lines()
        .skip(1)
        .map(|line| line.rsplit(',').next().unwrap())
        .collect()
}

#[test]
fn help_and_version_are_printed_to_standard_output() {
    let place = Place::new();
    let version = format!("rescore {}\n", env!("CARGO_PKG_VERSION"));
    let cases: [(&[&str], &[&str]); 8] = [
        (&["--help"], &["run", "sandbox", "Exit codes", "130"]),
        (&["-h"], &["run", "sandbox"]),
        (
            &["run", "--help"],
            &["RESCORE_SOME_NAME", "RESCORE_API_KEY", "--sandbox", "50/s"],
        ),
        (&["run", "-h"], &["RESCORE_SOME_NAME", "--concurrency"]),
        (
            &["sandbox", "--help"],
            &["RESCORE_SANDBOX_SOME_NAME", "--fault", "127.0.0.1:8787"],
        ),
        (&["ledger", "--help"], &["stats", "prune", "forget"]),
        (
            &["ledger", "forget", "--help"],
            &["RESCORE_LEDGER_SOME_NAME", "--users", "--all", "run"],
        ),
        (&["--version"], &[&version]),
    ];
    for (arguments, words) in cases {
        let program = arguments.iter().fold(place.rescore([]), Program::arg);
        let done = program.done();
        done.exits(0);
        let stdout = String::from_utf8(done.stdout.clone()).unwrap();
        for words in words {
            done.check(
                stdout.contains(words),
                &format!("standard output says `{words}`"),
            );
        }
        done.check(done.stderr.is_empty(), "nothing on standard error");
    }
}

#[test]
fn no_value_of_a_variable_is_in_the_help() {
    let place = Place::new();
    let done = place
        .rescore(["run", "--help"])
        .env("RESCORE_BASE_URL", "https://user:hidden@example.com")
        .done();
    done.exits(0).silent_about("hidden");
}

#[test]
fn what_is_unknown_is_answered_with_the_similar() {
    let desk = Desk::new();
    desk.refuses_typed(&["--concurency", "3"], &["--concurency", "'--concurrency'"]);
    desk.refuses_typed(&["--api-key-fil", "key.txt"], &["'--api-key-file'"]);
    desk.refuses_typed(&["more.csv"], &["more.csv"]);
    desk.refuses_typed(&["--format", "xml"], &["csv, tsv, jsonl"]);
    desk.refuses_typed(&["--plan", "gold"], &["paid, free"]);
    desk.refuses_typed(
        &["--progress", "loud"],
        &["auto", "bar", "plain", "json", "off"],
    );
    desk.refuses_typed(
        &["-c", "1", "-c", "2"],
        &["--concurrency", "multiple times"],
    );
    desk.refuses(desk.place.rescore(["rum"]), &["'rum'", "'run'"]);
}

#[test]
fn without_a_subcommand_the_help_is_shown_as_an_error() {
    let place = Place::new();
    let done = place.rescore([]).done();
    done.exits(2)
        .says("Usage: rescore <COMMAND>")
        .says("run")
        .says("sandbox");
    done.check(done.stdout.is_empty(), "nothing on standard output");
}

#[test]
fn numbers_out_of_range_are_refused_with_the_range() {
    let desk = Desk::new();
    for number in ["0", "-1", "1000000000", "10001"] {
        desk.refuses_typed(&["--concurrency", number], &["--concurrency", "1..=10000"]);
        desk.refuses_typed(&["-c", number], &["--concurrency", "1..=10000"]);
    }
    for flag in ["--retries", "--resend-unknown"] {
        for number in ["-1", "101"] {
            desk.refuses_typed(&[flag, number], &[flag, "0..=100"]);
        }
    }
    for number in ["-1", "0", "1023", "1073741825"] {
        desk.refuses_typed(
            &["--max-record-bytes", number],
            &["--max-record-bytes", "1024..=1073741824"],
        );
    }
    for text in ["many", "1.5", ""] {
        desk.refuses_typed(&["-c", text], &["--concurrency"]);
    }
}

#[test]
fn rates_out_of_range_are_refused_with_the_range() {
    let desk = Desk::new();
    for rate in ["-1", "-1/s", "NaN", "0", "0/h", "1e9", "inf", "1/h"] {
        desk.refuses_typed(
            &["--rate", rate],
            &["--rate", "0.001/s to 100000/s", "`unlimited`"],
        );
    }
    for rate in ["50/d", "50 per second", "fast", ""] {
        desk.refuses_typed(
            &["--rate", rate],
            &["--rate", "`50/s`, `600/m`, `1000/h`, `auto` or `unlimited`"],
        );
    }
}

#[test]
fn times_need_a_unit_and_an_end() {
    let desk = Desk::new();
    for flag in ["--timeout", "--connect-timeout", "--progress-every"] {
        for time in ["30", "0s", "2h", "soon", "1us"] {
            desk.refuses_typed(&[flag, time], &[flag, "from 1ms to 1h", "`30s`"]);
        }
    }
}

#[test]
fn addresses_that_cannot_be_meant_are_refused() {
    let desk = Desk::new();
    for (flag, plan) in [("--base-url", "paid"), ("--free-base-url", "free")] {
        for (address, words) in [
            ("http://example.com", "--allow-http"),
            ("http://192.0.2.1", "--allow-http"),
            ("http://127.0.0.1.example.com", "--allow-http"),
            ("https://example.com?tenant=1", "query"),
            ("https://example.com#top", "fragment"),
            ("file:///etc/passwd", "`https://`"),
            ("ftp://example.com", "`https://`"),
            ("example.com", "address"),
            ("", "address"),
        ] {
            desk.refuses_typed(&["--plan", plan, flag, address], &[words]);
        }
    }
    // A flag for plain HTTP does not make other schemes right.
    desk.refuses_typed(
        &["--allow-http", "--base-url", "file:///x"],
        &["`https://`"],
    );
}

#[test]
fn what_is_missing_is_named_with_the_flag_that_gives_it() {
    let desk = Desk::new();
    let without = |name| desk.typed(&[]).without_env(name);
    desk.refuses(
        without("RESCORE_BASE_URL"),
        &["no service address", "`--base-url ", "`--sandbox`"],
    )
    .silent_about("--free-base-url");
    // The paid plan's address is there, but this run must not go to it.
    desk.refuses(
        desk.typed(&["--plan", "free"]),
        &["no service address", "`--free-base-url ", "`--sandbox`"],
    )
    .silent_about("`--base-url");
    desk.refuses(
        without("RESCORE_SERVICE_ID"),
        &["no service id", "--service-id", "RESCORE_SERVICE_ID"],
    );
    desk.refuses_typed(&["--service-id", ""], &["no service id"]);
    let url = desk.server.url().replace("http:", "https:");
    desk.refuses_typed(
        &["--base-url", &url, "--ca-file", "nowhere.pem"],
        &["nowhere.pem"],
    );
}

#[test]
fn everything_that_is_missing_is_named_in_one_message() {
    let desk = Desk::new();
    let bare = desk.place.rescore(["run", "users.csv", "-o", "scored.csv"]);
    desk.refuses(
        bare,
        &["error: no service address, no service id, no API key\n  \
            service address: give `--base-url URL` or set the variable `RESCORE_BASE_URL`\n  \
            service id: give `--service-id ID` or set the variable `RESCORE_SERVICE_ID`\n  \
            API key: give `--api-key-file FILE` or set the variable `RESCORE_API_KEY`\n\n\
            hint: with `--sandbox` a built-in stand-in answers, which needs none of these\n"],
    );
    let without_key = desk.typed(&[]).without_env("RESCORE_API_KEY");
    desk.refuses(without_key, &["error: no API key\n"]);
}

#[test]
fn an_error_in_a_value_names_the_variable_that_it_came_from() {
    let desk = Desk::new();
    for (name, value, typed, words) in [
        (
            "RESCORE_CONCURRENCY",
            "many",
            &[][..],
            "tip: `--concurrency` comes from the variable `RESCORE_CONCURRENCY`",
        ),
        (
            "RESCORE_QUIET",
            "perhaps",
            &[],
            "tip: `--quiet` comes from the variable `RESCORE_QUIET`",
        ),
        (
            "RESCORE_FRESH",
            "1",
            &["--max-age", "7d"],
            "tip: `--fresh` comes from the variable `RESCORE_FRESH`",
        ),
        (
            "RESCORE_FORMAT",
            "jsonl",
            &["--delimiter", ";"],
            "  `--format` comes from the variable `RESCORE_FORMAT`\n",
        ),
        (
            "RESCORE_BASE_URL",
            "example.com",
            &[],
            "  the value comes from the variable `RESCORE_BASE_URL`\n",
        ),
        (
            "RESCORE_SERVICE_ID",
            "a\u{7f}b",
            &[],
            "  the value comes from the variable `RESCORE_SERVICE_ID`\n",
        ),
        (
            "RESCORE_API_KEY_FILE",
            "nowhere.txt",
            &[],
            "  `--api-key-file` comes from the variable `RESCORE_API_KEY_FILE`\n",
        ),
        (
            "RESCORE_CA_FILE",
            "nowhere.pem",
            &[],
            "  `--ca-file` comes from the variable `RESCORE_CA_FILE`\n",
        ),
        (
            "RESCORE_LEDGER",
            "/dev/null",
            &[],
            "  `--ledger` comes from the variable `RESCORE_LEDGER`\n",
        ),
        (
            "RESCORE_MAP",
            "email=emial",
            &[],
            "  `--map` comes from the variable `RESCORE_MAP`\n",
        ),
        (
            "RESCORE_REJECTS",
            "rejects.xlsx",
            &[],
            "  `--rejects` comes from the variable `RESCORE_REJECTS`\n",
        ),
    ] {
        desk.refuses(desk.typed(typed).env(name, value), &[words]);
    }
    // What was typed is not blamed on a variable that it overrides, nor on others.
    let program = desk
        .typed(&["-c", "few"])
        .env("RESCORE_CONCURRENCY", "many");
    desk.refuses(program, &["'few'"]).silent_about("variable");
}

#[test]
fn a_typed_address_cannot_be_used_with_the_sandbox() {
    let desk = Desk::new();
    for flag in ["--base-url", "--free-base-url"] {
        desk.refuses_typed(
            &["--sandbox", flag, "https://api.example.com"],
            &[
                &format!("error: `--sandbox` and `{flag}` cannot be used together: with `--sandbox` the built-in stand-in answers, not the service"),
                &format!("hint: leave out `--sandbox` to ask the service, or `{flag}` to ask the stand-in"),
            ],
        );
    }
    let program = desk.typed(&["--base-url", "https://api.example.com"]);
    desk.refuses(
        program.env("RESCORE_SANDBOX", "1"),
        &["`--sandbox` comes from the variable `RESCORE_SANDBOX`"],
    );
}

#[test]
fn a_file_whose_name_says_another_format_is_refused() {
    let desk = Desk::new();
    let words = |flag: &str, name: &str| {
        format!(
            "error: cannot write CSV to `{flag} {name}`: it is the name of another format, and the output has the input's\n"
        )
    };
    for (name, better) in [
        ("x.xlsx", "x.csv"),
        ("x.parquet", "x.csv"),
        ("x.jsonl", "x.csv"),
        ("x.ndjson.gz", "x.csv.gz"),
    ] {
        let program = desk
            .place
            .rescore(["run", "users.csv", "--sandbox", "-o", name]);
        let done = program.done();
        done.exits(2)
            .says(&words("--output", name))
            .says(&format!("hint: name it `{better}`\n"));
        assert_eq!(desk.place.names(), ["users.csv"]);
    }
    for flag in ["--rejects", "--changes"] {
        desk.refuses_typed(&[flag, "x.xlsx"], &[&words(flag, "x.xlsx")]);
    }
}

#[test]
fn a_device_cannot_be_a_ledger() {
    Desk::new().refuses_typed(
        &["--ledger", "/dev/null"],
        &[
            "error: `/dev/null` cannot be a ledger: it is not a regular file\n\nhint: name a file, or run without a ledger with `--no-ledger`\n",
        ],
    );
}

#[test]
fn flags_of_the_paid_plan_are_refused_on_the_free_one() {
    let desk = Desk::new();
    for flag in ["--vpn-check", "--advanced"] {
        let arguments = [
            "--plan",
            "free",
            "--free-base-url",
            &desk.server.url(),
            flag,
        ];
        desk.refuses_typed(&arguments, &[&format!("`{flag}`"), "paid", "`--plan paid`"]);
        // A rehearsal must not pass what the service would refuse.
        desk.refuses_typed(&["--plan", "free", "--sandbox", flag], &[flag]);
    }
    let by_variable = desk
        .typed(&["--plan", "free", "--free-base-url", &desk.server.url()])
        .env("RESCORE_ADVANCED", "true");
    desk.refuses(by_variable, &["--advanced"]);
}

#[test]
fn each_plan_has_its_address_and_its_flags() {
    let (desk, free) = (Desk::new(), Server::good());
    let run = |arguments: &[&str]| {
        let program = desk
            .typed(&["--overwrite"])
            .env("RESCORE_FREE_BASE_URL", free.url());
        let program = arguments.iter().fold(program, Program::arg);
        program.done().exits(0);
    };
    run(&["--plan", "free"]);
    assert_eq!((free.calls(), desk.server.calls()), (3, 0));
    for request in free.requests() {
        let sent = request.json();
        let keys: Vec<_> = sent.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["name", "email", "ip", "user_agent"], "{request:?}");
    }
    for (arguments, vpn_check, advanced) in [
        (&[] as &[&str], false, false),
        (&["--vpn-check"], true, false),
        (&["--plan", "paid", "--advanced"], false, true),
        (&["--vpn-check", "--advanced"], true, true),
    ] {
        let before = desk.server.calls();
        run(arguments);
        let requests = desk.server.requests();
        assert_eq!(requests.len(), before + 3);
        for request in &requests[before..] {
            let sent = request.json();
            assert_eq!(
                (&sent["vpn_check"], &sent["advanced"]),
                (&json!(vpn_check), &json!(advanced)),
                "{arguments:?}: {request:?}"
            );
        }
    }
    assert_eq!(free.calls(), 3);
}

/// A verdict whose score is the user's name.
fn score_as_named(request: &Request) -> Action {
    let score = request.name();
    ok(&format!(
        r#"{{"summary":{{"risk_score":{score}}},"transaction_id":"t"}}"#
    ))
}

#[test]
fn thresholds_are_the_highest_scores_of_their_decision() {
    /// Arguments, then scores with their decisions.
    type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)]);
    let server = Server::start(score_as_named);
    let cases: [Case<'_>; 5] = [
        (
            &[],
            &[
                ("-1", "approve"),
                ("2", "approve"),
                ("2.000", "approve"),
                ("2.0001", "review"),
                ("5", "review"),
                ("5.01", "block"),
                ("1e1", "block"),
            ],
        ),
        (
            &["--approve-max", "3.5"],
            &[("3.5", "approve"), ("3.51", "review"), ("5.0", "review")],
        ),
        (
            &["--approve-max", "0.3", "--review-max", "8.25"],
            &[
                ("0.3", "approve"),
                ("0.31", "review"),
                ("8.25", "review"),
                ("8.26", "block"),
            ],
        ),
        (
            &["--approve-max", "4", "--review-max", "4"],
            &[("4.0", "approve"), ("4.01", "block")],
        ),
        (
            &["--approve-max", "-1", "--review-max", "0"],
            &[("-1.0", "approve"), ("0.0", "review"), ("0.1", "block")],
        ),
    ];
    for (arguments, expected) in cases {
        let csv = users::named(expected.iter().map(|(score, _)| score));
        let place = Place::with("users.csv", csv);
        let program = place.run(&server, ["users.csv", "-o", "scored.csv"]);
        let done = arguments.iter().fold(program, Program::arg).done();
        done.exits(0);
        let wanted: Vec<_> = expected.iter().map(|(_, decision)| *decision).collect();
        let scored = place.text("scored.csv");
        assert_eq!(decisions(&scored), wanted, "{arguments:?}\n{scored}");
    }
}

#[test]
fn a_score_next_to_a_threshold_is_decided_by_its_digits() {
    let server = Server::start(score_as_named);
    let expected = [
        ("1.9999999999999999999", "approve"),
        ("2.0000000000000000001", "review"),
        ("20e-1", "approve"),
        ("0.20000000000000000000E1", "approve"),
        ("0.30000000000000004", "approve"),
        ("5.0000000000000000000", "review"),
        ("5.0000000000000000001", "block"),
    ];
    let csv = users::named(expected.iter().map(|(score, _)| score));
    let place = Place::with("users.csv", csv);
    place.score(&server, []).exits(0);
    let wanted = expected.map(|(_, decision)| decision);
    assert_eq!(decisions(&place.text("scored.csv")), wanted);
    // The threshold's own digits count as well.
    let arguments = [
        "--overwrite",
        "--approve-max",
        "0.30000000000000001",
        "--review-max",
        "5.00000000000000000005",
    ];
    place.score(&server, arguments).exits(0);
    let wanted = [
        "review", "review", "review", "review", "review", "review", "block",
    ];
    assert_eq!(decisions(&place.text("scored.csv")), wanted);
}

#[test]
fn thresholds_out_of_order_or_no_numbers_are_refused() {
    let desk = Desk::new();
    desk.refuses_typed(
        &["--approve-max", "6"],
        &["`--approve-max 6` is above `--review-max 5`"],
    );
    desk.refuses_typed(
        &["--review-max", "1.5"],
        &["`--approve-max 2` is above `--review-max 1.5`"],
    );
    for flag in ["--approve-max", "--review-max"] {
        for text in ["NaN", "inf", "low", ""] {
            desk.refuses_typed(&[flag, text], &[flag]);
        }
    }
}

#[test]
fn columns_that_are_there_already_are_refused() {
    let desk = Desk::new();
    let refuses = |columns: &[&str], name: &str| {
        let arguments: Vec<_> = columns
            .iter()
            .flat_map(|column| ["--column", column])
            .collect();
        desk.refuses_typed(&arguments, &["--column", &format!("`{name}`")]);
    };
    refuses(&["level=/a", "level=/b"], "level");
    refuses(&["level=/a", "Level=/b"], "Level");
    for name in ["decision", "risk_score", "transaction_id", "Decision"] {
        refuses(&[&format!("{name}=/a")], name);
    }
}

#[test]
fn a_delimiter_is_one_character_and_only_for_csv() {
    let desk = Desk::new();
    for delimiter in [";;", "ab", "§", ""] {
        desk.refuses_typed(
            &["--delimiter", delimiter],
            &["--delimiter", "one ASCII character, or `tab`"],
        );
    }
    desk.refuses_typed(&["--delimiter", "\""], &["--delimiter", "quote"]);
    desk.refuses_typed(
        &["--format", "jsonl", "--delimiter", ";"],
        &["`--delimiter`", "`--format jsonl`"],
    );
}

#[test]
fn the_longest_record_is_a_setting() {
    let name = "x".repeat(4_000);
    let (server, place) = (
        Server::good(),
        Place::with("users.csv", users::named(["Ann", &name])),
    );
    place
        .score(&server, ["--max-record-bytes", "2048"])
        .exits(2)
        .says("line 3")
        .says("2048 bytes")
        .says("--max-record-bytes");
    place
        .score(&server, ["--max-record-bytes", "8192", "--overwrite"])
        .exits(0);
    assert_eq!(
        place.text("scored.csv"),
        users::scored(&users::named(["Ann", &name]))
    );
}

/// Every setting that a run against a server can have, as its variable; `None` is a flag.
const SETTINGS: [(&str, Option<&str>); 32] = [
    ("RESCORE_OUTPUT", Some("scored.csv")),
    ("RESCORE_FREE_BASE_URL", Some("https://free.example")),
    ("RESCORE_PLAN", Some("paid")),
    ("RESCORE_SERVICE_ID", Some("nightly-import")),
    ("RESCORE_API_KEY_FILE", Some("key.txt")),
    ("RESCORE_VPN_CHECK", None),
    ("RESCORE_ADVANCED", None),
    ("RESCORE_ALLOW_HTTP", None),
    ("RESCORE_MAP", Some("name=who\nip=address")),
    ("RESCORE_SET", Some("user_agent=nightly job")),
    ("RESCORE_INVALID_PHONE", Some("drop")),
    (
        "RESCORE_COLUMN",
        Some("level=/summary/risk_level\nlabel=/summary/verify_label"),
    ),
    ("RESCORE_APPROVE_MAX", Some("-1")),
    ("RESCORE_REVIEW_MAX", Some("10")),
    ("RESCORE_CONCURRENCY", Some("1")),
    ("RESCORE_RATE", Some("1000/s")),
    ("RESCORE_RETRIES", Some("0")),
    ("RESCORE_RESEND_UNKNOWN", Some("0")),
    ("RESCORE_TIMEOUT", Some("20s")),
    ("RESCORE_CONNECT_TIMEOUT", Some("4s")),
    ("RESCORE_FORMAT", Some("csv")),
    ("RESCORE_DELIMITER", Some(";")),
    ("RESCORE_EXISTING", Some("keep")),
    ("RESCORE_REJECTS", Some("bad rows.csv")),
    ("RESCORE_CHANGES", Some("moved.csv")),
    ("RESCORE_OVERWRITE", None),
    ("RESCORE_MAX_RECORD_BYTES", Some("2048")),
    ("RESCORE_PROGRESS", Some("json")),
    ("RESCORE_PROGRESS_EVERY", Some("1h")),
    ("RESCORE_SUMMARY", Some("summary.json")),
    ("RESCORE_QUIET", None),
    ("RESCORE_INPUT", Some("people")),
];

/// A file with a key that only its owner can read.
fn write_key(place: &Place, name: &str, key: &str) {
    place.write(name, format!("{key}\n"));
    fs::set_permissions(place.path(name), fs::Permissions::from_mode(0o600)).unwrap();
}

/// What came of a run with all of [`SETTINGS`].
fn run_with_all(by_variable: bool) -> (Place, Vec<Request>) {
    let server = Server::start(|request| {
        if request.name() == "Trouble" {
            status(500)
        } else {
            good(request)
        }
    });
    let place = Place::with(
        "people",
        "who;email;phone;address;decision\n\
        Ann;a@x.org;12;::1;block\n\
        Bob;b@x.org;;nowhere;\n\
        Trouble;c@x.org;;::1;\n\
        Dan, d;d@x.org;+15550100199;::1;\n",
    );
    place.write("scored.csv", "last night's");
    write_key(&place, "key.txt", "key-of-the-file");
    let mut program = place.rescore(["run"]);
    if by_variable {
        program = program.env("RESCORE_BASE_URL", server.url());
    } else {
        program = program.arg("--base-url").arg(server.url());
    }
    for (variable, value) in SETTINGS {
        if by_variable {
            program = program.env(variable, value.unwrap_or("true"));
            continue;
        }
        if variable != "RESCORE_INPUT" {
            let name = variable.trim_start_matches("RESCORE_").to_lowercase();
            program = program.arg(format!("--{}", name.replace('_', "-")));
        }
        program = value.into_iter().fold(program, Program::arg);
    }
    let done = program.done();
    done.exits(1);
    done.check(
        done.stderr.lines().count() == 1 && done.stdout.is_empty(),
        "quiet says only that rows failed",
    );
    (place, server.requests())
}

#[test]
fn every_setting_can_be_given_by_its_variable() {
    let (typed, requests_typed) = run_with_all(false);
    let (varied, requests_varied) = run_with_all(true);

    let names = [
        "bad rows.csv",
        "key.txt",
        "moved.csv",
        "people",
        "scored.csv",
        "scored.csv.ledger",
        "summary.json",
    ];
    assert_eq!(typed.names(), names);
    assert_eq!(varied.names(), names);
    let cells = |name: &str| {
        let Verdict { id, score, .. } = Verdict::of(name);
        format!("{id};{score};review;0;Legit")
    };
    let expected = format!(
        "who;email;phone;address;previous_decision;transaction_id;risk_score;decision;level;label\n\
        Ann;a@x.org;12;::1;block;{}\n\
        Bob;b@x.org;;nowhere;;;;;;\n\
        Trouble;c@x.org;;::1;;;;;;\n\
        Dan, d;d@x.org;+15550100199;::1;;{}\n",
        cells("Ann"),
        cells("Dan, d")
    );
    assert_eq!(varied.text("scored.csv"), expected);
    assert_eq!(typed.text("scored.csv"), expected);
    assert_eq!(varied.text("bad rows.csv"), typed.text("bad rows.csv"));
    let moved = format!(
        "change_row;old_decision;old_score;new_decision;new_score;who;email;phone;address;decision\n\
        1;block;;review;{};Ann;a@x.org;12;::1;block\n",
        Verdict::of("Ann").score
    );
    assert_eq!(varied.text("moved.csv"), moved);
    assert_eq!(typed.text("moved.csv"), moved);

    let user = |name: &str, email: &str| json!({"name": name, "email": email, "ip": "::1", "user_agent": "nightly job", "vpn_check": true, "advanced": true});
    let mut dan = user("Dan, d", "d@x.org");
    dan["phone"] = json!("+15550100199");
    let sent = [user("Ann", "a@x.org"), user("Trouble", "c@x.org"), dan];
    for requests in [&requests_varied, &requests_typed] {
        let bodies: Vec<_> = requests.iter().map(Request::json).collect();
        assert_eq!(bodies, sent);
        for request in requests {
            assert_eq!(
                (
                    request.header("authorization"),
                    request.header("x-service-id")
                ),
                (Some("Bearer key-of-the-file"), Some("nightly-import"))
            );
        }
    }
}

#[test]
fn an_argument_wins_over_its_variable() {
    let desk = Desk::new();
    let done = desk
        .typed(&["-c", "2", "--rate", "500/s", "--map", "name=name"])
        .env("RESCORE_CONCURRENCY", "7")
        .env("RESCORE_RATE", "1/m")
        .env("RESCORE_OUTPUT", "elsewhere.csv")
        .env("RESCORE_INPUT", "nowhere.csv")
        .env("RESCORE_MAP", "name=email\nip=nowhere")
        .done();
    done.exits(0).says("at most 2 in flight, 500/s");
    assert_eq!(desk.place.names(), ["scored.csv", "users.csv"]);
    assert_eq!(desk.place.text("scored.csv"), users::scored(&users::csv(3)));
    // Without the arguments these variables do count.
    let done = desk
        .typed(&["--overwrite"])
        .env("RESCORE_CONCURRENCY", "7")
        .env("RESCORE_RATE", "250")
        .done();
    done.exits(0).says("at most 7 in flight, 250/s");
}

#[test]
fn a_bad_variable_is_refused_like_a_bad_argument() {
    let desk = Desk::new();
    for (variable, value, words) in [
        ("RESCORE_CONCURRENCY", "0", "1..=10000"),
        ("RESCORE_RATE", "50/d", "`50/s`"),
        ("RESCORE_TIMEOUT", "30", "`30s`"),
        ("RESCORE_MAP", "name=name\nage=name", "`age`"),
        ("RESCORE_COLUMN", "a=/a\na=/b", "`a`"),
        ("RESCORE_APPROVE_MAX", "9", "--review-max 5"),
        ("RESCORE_OVERWRITE", "maybe", "not a boolean"),
        ("RESCORE_DELIMITER", "::", "one ASCII character"),
        ("RESCORE_MAX_RECORD_BYTES", "1", "1024..=1073741824"),
        ("RESCORE_RETRIES", "-1", "0..=100"),
        ("RESCORE_RESEND_UNKNOWN", "101", "0..=100"),
        ("RESCORE_CONNECT_TIMEOUT", "2h", "1h"),
        ("RESCORE_PROGRESS", "loud", "plain, json, off"),
        ("RESCORE_PROGRESS_EVERY", "10", "1h"),
        ("RESCORE_PLAN", "gold", "paid, free"),
        ("RESCORE_ALLOW_HTTP", "maybe", "--allow-http"),
        ("RESCORE_FORMAT", "xml", "csv, tsv, jsonl"),
    ] {
        desk.refuses(desk.typed(&[]).env(variable, value), &[words]);
    }
}

#[test]
fn the_key_comes_from_a_file_then_the_variable_then_systemd() {
    let (desk, credentials) = (Desk::new(), Place::new());
    write_key(&credentials, "rescore-api-key", "key-of-systemd");
    write_key(&credentials, "key.txt", "key-of-the-file");
    let directory = credentials.path("").into_os_string();
    let file = credentials.path("key.txt").into_os_string();
    let typed = || {
        desk.typed(&["--overwrite"])
            .env("CREDENTIALS_DIRECTORY", directory.clone())
    };
    let used = |program: Program<'_>, key: &str| {
        let before = desk.server.calls();
        program
            .done()
            .exits(0)
            .silent_about("warning")
            .silent_about("key-of");
        let requests = desk.server.requests();
        assert_eq!(requests.len(), before + 3);
        for request in &requests[before..] {
            let sent = request.header("authorization");
            assert_eq!(sent, Some(&*format!("Bearer {key}")));
        }
    };
    used(typed().without_env("RESCORE_API_KEY"), "key-of-systemd");
    used(typed().env("RESCORE_API_KEY", ""), "key-of-systemd");
    used(typed(), KEY);
    used(
        typed().arg("--api-key-file").arg(file.clone()),
        "key-of-the-file",
    );
    used(typed().env("RESCORE_API_KEY_FILE", file), "key-of-the-file");
}

#[test]
fn a_key_file_that_was_named_is_never_passed_over() {
    let (desk, credentials) = (Desk::new(), Place::new());
    write_key(&credentials, "empty", "");
    let empty = credentials.path("empty");
    let empty = empty.to_str().unwrap();
    desk.refuses_typed(&["--api-key-file", "nowhere.txt"], &["nowhere.txt"]);
    desk.refuses_typed(&["--api-key-file", empty], &["API key", "is empty"]);
    // Systemd's directory without our credential is as good as none.
    let program = desk
        .typed(&[])
        .without_env("RESCORE_API_KEY")
        .env("CREDENTIALS_DIRECTORY", Path::new(".").as_os_str());
    desk.refuses(
        program,
        &["no API key", "RESCORE_API_KEY", "--api-key-file"],
    );
}

#[test]
fn a_sandbox_run_has_no_use_for_real_keys_and_addresses() {
    for plan in ["paid", "free"] {
        let desk = Desk::new();
        let url = desk.server.url();
        let done = desk
            .typed(&["--sandbox", "--plan", plan])
            .env("RESCORE_API_KEY", "sk-live-secret")
            .env("RESCORE_API_KEY_FILE", "not-even-there.txt")
            .env("RESCORE_SERVICE_ID", "live-service")
            .env("RESCORE_FREE_BASE_URL", &url)
            .env("HTTP_PROXY", &url)
            .env("http_proxy", &url)
            .env("ALL_PROXY", &url)
            .done();
        done.exits(0)
            .says("sandbox")
            .silent_about("sk-live-secret")
            .silent_about("live-service")
            .silent_about(&url);
        done.check(desk.server.connections() == 0, "nothing reaches a server");
        let scored = desk.place.text("scored.csv");
        assert_eq!(scored.matches(",sandbox-").count(), 3, "{scored}");
    }
}

#[test]
fn a_flags_variable_may_say_one_or_yes() {
    let server = Server::good();
    for (value, sent) in [
        ("1", true),
        ("yes", true),
        ("true", true),
        ("0", false),
        ("no", false),
    ] {
        let place = Place::with("users.csv", users::csv(1));
        let program = place.run(&server, ["users.csv", "-o", "scored.csv"]);
        program.env("RESCORE_VPN_CHECK", value).done().exits(0);
        let request = server.requests().pop().unwrap();
        assert_eq!(request.json()["vpn_check"], sent, "{value:?}");
    }
}
