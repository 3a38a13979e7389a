//! What a run needs: an address for each plan, a service id, and a key from one of its sources.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::json;

use crate::support::command_line::CommandLine;
use crate::support::process::{KEY, Place, Program};
use crate::support::server::Server;

#[test]
fn what_is_missing_is_named_with_the_flag_that_gives_it() {
    let line = CommandLine::new();
    let without = |name| line.typed("").without_env(name);
    line.refuses(
        without("RESCORE_BASE_URL"),
        &["no service address", "`--base-url ", "`--sandbox`"],
    )
    .silent_about("--free-base-url");
    // The paid plan's address is given, but this run must not use it.
    line.refuses(
        line.typed("--plan free"),
        &["no service address", "`--free-base-url ", "`--sandbox`"],
    )
    .silent_about("`--base-url");
    line.refuses(
        without("RESCORE_SERVICE_ID"),
        &["no service id", "--service-id", "RESCORE_SERVICE_ID"],
    );
    line.refuses_typed(["--service-id", ""], &["no service id"]);
    let url = line.server.url().replace("http:", "https:");
    line.refuses_typed(
        ["--base-url", &url, "--ca-file", "nowhere.pem"],
        &["nowhere.pem"],
    );
}

#[test]
fn everything_that_is_missing_is_named_in_one_message() {
    let line = CommandLine::new();
    let bare = line.place.rescore("run users.csv -o scored.csv");
    line.refuses(
        bare,
        &["error: no service address, no service id, no API key\n  \
            service address: give `--base-url URL` or set the variable `RESCORE_BASE_URL`\n  \
            service id: give `--service-id ID` or set the variable `RESCORE_SERVICE_ID`\n  \
            API key: give `--api-key-file FILE` or set the variable `RESCORE_API_KEY`\n\n\
            hint: `--sandbox` uses a built-in stand-in, which needs no address, id or key\n"],
    );
    let without_key = || line.typed("").without_env("RESCORE_API_KEY");
    for program in [without_key(), without_key().env("RESCORE_API_KEY", "")] {
        line.refuses(
            program,
            &["error: no API key\n", "RESCORE_API_KEY", "--api-key-file"],
        );
    }
}

#[test]
fn each_plan_has_its_address_and_its_flags() {
    let (line, free) = (CommandLine::new(), Server::good());
    let run = |arguments: &[&str]| {
        let program = line
            .typed("--overwrite")
            .env("RESCORE_FREE_BASE_URL", free.url());
        let program = program.args(arguments);
        program.done().exits(0);
    };
    run(&["--plan", "free"]);
    assert_eq!((free.calls(), line.server.calls()), (3, 0));
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
        let before = line.server.calls();
        run(arguments);
        let requests = line.server.requests();
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

/// A file with a key that only its owner can read.
pub(super) fn write_key(place: &Place, name: &str, key: &str) {
    place.write(name, format!("{key}\n"));
    fs::set_permissions(place.path(name), fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn the_key_comes_from_a_file_then_the_variable_then_systemd() {
    let (line, credentials) = (CommandLine::new(), Place::new());
    write_key(&credentials, "rescore-api-key", "key-of-systemd");
    write_key(&credentials, "key.txt", "key-of-the-file");
    let directory = credentials.path("").into_os_string();
    let file = credentials.path("key.txt").into_os_string();
    let typed = || {
        line.typed("--overwrite --no-ledger")
            .env("CREDENTIALS_DIRECTORY", directory.clone())
    };
    let used = |program: Program<'_>, key: &str| {
        let before = line.server.calls();
        program
            .done()
            .exits(0)
            .silent_about("warning")
            .silent_about("key-of");
        let requests = line.server.requests();
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
    let (line, credentials) = (CommandLine::new(), Place::new());
    write_key(&credentials, "empty", "");
    let empty = credentials.path("empty");
    let empty = empty.to_str().unwrap();
    line.refuses_typed("--api-key-file nowhere.txt", &["nowhere.txt"]);
    line.refuses_typed(["--api-key-file", empty], &["API key", "is empty"]);
    // Nor is systemd's directory that lacks our credential.
    let program = line
        .typed("")
        .without_env("RESCORE_API_KEY")
        .env("CREDENTIALS_DIRECTORY", Path::new(".").as_os_str());
    line.refuses(
        program,
        &["cannot read the API key from `./rescore-api-key`"],
    );
}

#[test]
fn a_sandbox_run_has_no_use_for_real_keys_and_addresses() {
    for plan in ["paid", "free"] {
        let line = CommandLine::new();
        let url = line.server.url();
        let done = line
            .typed(["--sandbox", "--plan", plan])
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
        done.check(line.server.connections() == 0, "nothing reaches a server");
        let scored = line.place.text("scored.csv");
        assert_eq!(scored.matches(",sandbox-").count(), 3, "{scored}");
    }
}
