//! Settings from variables: each has one, an argument wins, and an error names the variable that a value came from.

use serde_json::json;

use super::settings::write_key;
use crate::support::command_line::CommandLine;
use crate::support::process::Place;
use crate::support::server::{Request, Server, good, status};
use crate::support::users::{self, Verdict};

#[test]
fn an_error_in_a_value_names_the_variable_that_it_came_from() {
    let line = CommandLine::new();
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
        line.refuses(line.typed(typed).env(name, value), &[words]);
    }
    // An error in an argument does not name the variable that it overrides, nor others.
    let program = line.typed("-c few").env("RESCORE_CONCURRENCY", "many");
    line.refuses(program, &["'few'"]).silent_about("variable");
}

/// Every setting of a run against a server, by its variable; `None` stands for a flag.
const SETTINGS: [(&str, Option<&str>); 28] = [
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
    ("RESCORE_FORMAT", Some("csv")),
    ("RESCORE_DELIMITER", Some(";")),
    ("RESCORE_REJECTS", Some("bad rows.csv")),
    ("RESCORE_CHANGES", Some("moved.csv")),
    ("RESCORE_OVERWRITE", None),
    ("RESCORE_PROGRESS", Some("json")),
    ("RESCORE_SUMMARY", Some("summary.json")),
    ("RESCORE_QUIET", None),
    ("RESCORE_INPUT", Some("people")),
];

/// Runs with all of [`SETTINGS`]. Returns the files and the requests.
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
        "who;email;phone;address;transaction_id;risk_score;decision\n\
        Ann;a@x.org;12;::1;;;block\n\
        Bob;b@x.org;;nowhere;;;\n\
        Trouble;c@x.org;;::1;;;\n\
        Dan, d;d@x.org;+15550100199;::1;;;\n",
    );
    place.write("scored.csv", "last night's");
    write_key(&place, "key.txt", "key-of-the-file");
    let mut program = place.rescore("run");
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
        program = program.args(value);
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
        "rescore.ledger",
        "scored.csv",
        "summary.json",
    ];
    assert_eq!(typed.names(), names);
    assert_eq!(varied.names(), names);
    let cells = |name: &str| {
        let Verdict { id, score, .. } = Verdict::of(name);
        format!("{id};{score};review;0;Legit")
    };
    let expected = format!(
        "who;email;phone;address;transaction_id;risk_score;decision;level;label\n\
        Ann;a@x.org;12;::1;{}\n\
        Bob;b@x.org;;nowhere;;;;;\n\
        Trouble;c@x.org;;::1;;;;;\n\
        Dan, d;d@x.org;+15550100199;::1;{}\n",
        cells("Ann"),
        cells("Dan, d")
    );
    assert_eq!(varied.text("scored.csv"), expected);
    assert_eq!(typed.text("scored.csv"), expected);
    assert_eq!(varied.text("bad rows.csv"), typed.text("bad rows.csv"));
    let moved = format!(
        "change_row;old_decision;old_score;new_decision;new_score;who;email;phone;address;transaction_id;risk_score;decision\n\
        1;block;;review;{};Ann;a@x.org;12;::1;;;block\n",
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
    let line = CommandLine::new();
    let done = line
        .typed("-c 2 --rate 500/s --map name=name")
        .env("RESCORE_CONCURRENCY", "7")
        .env("RESCORE_RATE", "1/m")
        .env("RESCORE_OUTPUT", "elsewhere.csv")
        .env("RESCORE_INPUT", "nowhere.csv")
        .env("RESCORE_MAP", "name=email\nip=nowhere")
        .done();
    done.exits(0).says("up to 2 calls at a time, at most 500/s");
    assert_eq!(
        line.place.names(),
        ["rescore.ledger", "scored.csv", "users.csv"]
    );
    assert_eq!(line.place.text("scored.csv"), users::scored(&users::csv(3)));
    // Without the arguments, the variables count.
    let done = line
        .typed("--overwrite")
        .env("RESCORE_CONCURRENCY", "7")
        .env("RESCORE_RATE", "250")
        .done();
    done.exits(0).says("up to 7 calls at a time, at most 250/s");
}

#[test]
fn a_bad_variable_is_refused_like_a_bad_argument() {
    let line = CommandLine::new();
    for (variable, value, words) in [
        ("RESCORE_CONCURRENCY", "many", "from 1 to 10000"),
        ("RESCORE_RATE", "50/d", "`50/s`"),
        ("RESCORE_TIMEOUT", "30", "`30s`"),
        ("RESCORE_MAP", "name=name\nage=name", "`age`"),
        ("RESCORE_COLUMN", "a=/a\na=/b", "`a`"),
        ("RESCORE_APPROVE_MAX", "9", "--review-max 5"),
        ("RESCORE_OVERWRITE", "maybe", "`false`, `no` or `0`"),
        ("RESCORE_DELIMITER", "::", "one ASCII character"),
        ("RESCORE_RETRIES", "-1", "from 0 to 100"),
        ("RESCORE_RESEND_UNKNOWN", "101", "from 0 to 100"),
        ("RESCORE_PROGRESS", "loud", "plain, json, off"),
        ("RESCORE_PLAN", "gold", "paid, free"),
        ("RESCORE_ALLOW_HTTP", "maybe", "--allow-http"),
        ("RESCORE_FORMAT", "xml", "csv, tsv, jsonl"),
    ] {
        line.refuses(line.typed("").env(variable, value), &[words]);
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
        let program = place.scoring(&server);
        program.env("RESCORE_VPN_CHECK", value).done().exits(0);
        let request = server.requests().pop().unwrap();
        assert_eq!(request.json()["vpn_check"], sent, "{value:?}");
    }
}

#[test]
fn an_empty_variable_counts_as_unset() {
    let line = CommandLine::new();
    let settings = "concurrency = 7\nrate = \"250/s\"\n";
    line.place.write("settings.toml", settings);
    let mut program = line.typed("--config settings.toml");
    // The service id is needed.
    for (variable, _) in SETTINGS
        .iter()
        .filter(|(name, _)| *name != "RESCORE_SERVICE_ID")
    {
        program = program.env(variable, "");
    }
    let program = program
        .env("RESCORE_SANDBOX", "")
        .env("RESCORE_LEDGER", "")
        .env("RESCORE_CONFIG", "");
    let done = program.done();
    done.exits(0)
        .says("up to 7 calls at a time, at most 250/s")
        .silent_about("unknown");
    assert_eq!(line.place.text("scored.csv"), users::scored(&users::csv(3)));
    for (command, variable) in [
        (
            "ledger prune answers --older-than 7d",
            "RESCORE_LEDGER_WAIT_LOCK",
        ),
        ("sandbox --listen nowhere", "RESCORE_SANDBOX_SEED"),
    ] {
        let done = line.place.rescore(command).env(variable, "").done();
        done.exits(2).silent_about(variable);
    }
}
