//! What a run needs, from arguments and variables: an address for each plan, a service id, and a key from one of its sources.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::command_line::CommandLine;
use crate::support::process::{KEY, Place, Program};
use crate::support::server::Server;
use crate::support::users;

#[test]
fn everything_that_is_missing_is_named_in_one_message() {
    let line = CommandLine::new();
    let bare = line.place.rescore("run users.csv -o scored.csv");
    let words = [
        "error: no service address, no service id, no API key\n",
        "`--base-url URL` or set the variable `RESCORE_BASE_URL`",
        "`--service-id ID` or set the variable `RESCORE_SERVICE_ID`",
        "`--api-key-file FILE` or set the variable `RESCORE_API_KEY`",
        "hint: `--sandbox` uses a built-in stand-in",
    ];
    let done = line.refuses(bare);
    for words in words {
        done.says(words);
    }
    // The paid plan's address is given, but this run must not use it.
    let done = line.refuses(line.typed("--plan free"));
    done.says("`--free-base-url ").silent_about("`--base-url");
    line.refuses(line.typed("").env("RESCORE_API_KEY", ""));
}

#[test]
fn each_plan_has_its_address_and_its_flags() {
    let (line, free) = (CommandLine::new(), Server::good());
    let run = |arguments: &str| {
        let program = line.typed("--overwrite").args(arguments);
        let program = program.env("RESCORE_FREE_BASE_URL", free.url());
        program.exits(0);
    };
    run("--plan free");
    assert_eq!((free.calls(), line.server.calls()), (3, 0));
    for request in free.requests() {
        let sent = request.json();
        assert!(sent.get("vpn_check").is_none() && sent.get("advanced").is_none());
    }
    for (arguments, vpn_check, advanced) in [
        ("", false, false),
        ("--vpn-check", true, false),
        ("--plan paid --advanced", false, true),
    ] {
        let before = line.server.calls();
        run(arguments);
        let requests = line.server.requests();
        assert_eq!(requests.len(), before + 3);
        for request in &requests[before..] {
            let sent = request.json();
            assert_eq!(
                [&sent["vpn_check"], &sent["advanced"]],
                [vpn_check, advanced]
            );
        }
    }
    assert_eq!(free.calls(), 3);
}

/// A file with a key that only its owner can read.
fn write_key(place: &Place, name: &str, key: &str) {
    place.write(name, format!("{key}\n"));
    fs::set_permissions(place.path(name), fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn the_key_comes_from_a_file_then_the_variable_then_systemd() {
    let (line, credentials) = (CommandLine::new(), Place::new());
    write_key(&credentials, "rescore-api-key", "key-of-systemd");
    write_key(&credentials, "key.txt", "key-of-the-file");
    write_key(&credentials, "empty", "");
    let path = |name: &str| credentials.path(name).into_os_string();
    let typed = || {
        let program = line.typed("--overwrite --no-ledger");
        program.env("CREDENTIALS_DIRECTORY", path(""))
    };
    let used = |program: Program<'_>, key: &str| {
        let before = line.server.calls();
        program
            .exits(0)
            .silent_about("warning")
            .silent_about("key-of");
        let requests = line.server.requests();
        assert_eq!(requests.len(), before + 3);
        let sent = requests[before].header("authorization");
        assert_eq!(sent, Some(&*format!("Bearer {key}")));
    };
    used(typed().without_env("RESCORE_API_KEY"), "key-of-systemd");
    used(typed().env("RESCORE_API_KEY", ""), "key-of-systemd");
    used(typed(), KEY);
    used(
        typed().arg("--api-key-file").arg(path("key.txt")),
        "key-of-the-file",
    );
    used(
        typed().env("RESCORE_API_KEY_FILE", path("key.txt")),
        "key-of-the-file",
    );

    // One that was named is never passed over.
    for (program, words) in [
        (typed().args("--api-key-file nowhere.txt"), "nowhere.txt"),
        (typed().arg("--api-key-file").arg(path("empty")), "is empty"),
        (
            typed()
                .without_env("RESCORE_API_KEY")
                .env("CREDENTIALS_DIRECTORY", "."),
            "cannot read the API key from `./rescore-api-key`",
        ),
    ] {
        program.exits(2).says(words);
    }
}

#[test]
fn what_differs_between_machines_has_a_variable_and_an_argument_wins_over_it() {
    let line = CommandLine::new();
    let profile = "[profile.slow]\nconcurrency = 3\nset = ['user_agent=of the profile']\n";
    line.place.write("settings.toml", profile);
    let run = |arguments: &str| {
        let program = line
            .typed(arguments)
            .env("RESCORE_LEDGER", "answers.ledger");
        let program = program.env("RESCORE_CONFIG", "settings.toml");
        program.env("RESCORE_PROFILE", "slow").done()
    };
    run("").exits(0).says("up to 3 calls at a time");
    assert!(line.place.path("answers.ledger").exists());
    let request = line.server.requests().pop().unwrap();
    assert_eq!(request.json()["user_agent"], "of the profile");
    assert_eq!(request.header("x-service-id"), Some("test"));
    let typed =
        "--overwrite --fresh -c 2 --ledger others.ledger --service-id typed --set user_agent=typed";
    run(typed).exits(0).says("up to 2 calls at a time");
    assert!(line.place.path("others.ledger").exists());
    let request = line.server.requests().pop().unwrap();
    assert_eq!(request.json()["user_agent"], "typed");
    assert_eq!(request.header("x-service-id"), Some("typed"));
    run("--overwrite --no-ledger").exits(0);
    assert_eq!(line.server.calls(), 9);
}

#[test]
fn an_error_names_the_variable_that_a_value_came_from_and_unknown_ones_are_refused() {
    let line = CommandLine::new();
    for (name, value) in [
        ("RESCORE_BASE_URL", "example.com"),
        ("RESCORE_SERVICE_ID", "a\u{7f}b"),
        ("RESCORE_API_KEY_FILE", "nowhere.txt"),
    ] {
        let done = line.refuses(line.typed("").env(name, value));
        done.says(&format!("`{name}`"));
    }
    // An error in an argument does not name the variable that it overrides.
    let program = line
        .typed("--ledger /dev/null")
        .env("RESCORE_LEDGER", "/dev/zero");
    line.refuses(program).silent_about("variable");
    for name in ["RESCORE_MAX_COST", "RESCORE_LEDGR"] {
        line.refuses(line.typed("").env(name, "5")).says(name);
        let help = line.place.rescore("run --help").env(name, "5");
        help.exits(0).silent_about("unknown");
    }
    // An empty one counts as unset.
    let program = line.typed("").env("RESCORE_API_KEY_FILE", "");
    let program = program.env("RESCORE_CONFIG", "");
    program.env("RESCORE_PROFILE", "").exits(0);
    assert_eq!(line.place.text("scored.csv"), users::scored(&users::csv(3)));
}

#[test]
fn a_sandbox_run_has_no_use_for_real_keys_and_addresses() {
    let line = CommandLine::new();
    let url = line.server.url();
    let mut program = line.typed("--sandbox");
    for (name, value) in [
        ("RESCORE_API_KEY", "sk-live-secret"),
        ("RESCORE_API_KEY_FILE", "not-even-there.txt"),
        ("RESCORE_SERVICE_ID", "live-service"),
        ("HTTP_PROXY", &url),
        ("http_proxy", &url),
        ("ALL_PROXY", &url),
    ] {
        program = program.env(name, value);
    }
    let done = program.exits(0);
    done.says("sandbox").silent_about(&url);
    done.silent_about("sk-live-secret")
        .silent_about("live-service");
    done.check(line.server.connections() == 0, "nothing reaches a server");
    assert_eq!(
        line.place.text("scored.csv").matches(",sandbox-").count(),
        3
    );
}
