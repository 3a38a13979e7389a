//! The samples for systemd and cron do what they say.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::docs::documents::{document, root};
use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

/// The program that the tests run.
const RESCORE: &str = env!("CARGO_BIN_EXE_rescore");

/// The settings of the nightly job, for this server, with its files in the test's directory.
fn nightly_settings(place: &Place, server: &Server) {
    let here = place.path(".").to_str().unwrap().to_owned();
    let settings = document("samples/nightly.toml")
        .replace("https://api.example.com", &server.url())
        .replace("/var/lib/rescore", &here);
    assert!(!settings.contains("/var/lib/rescore"), "{settings}");
    place.write("nightly.toml", settings);
}

/// Puts a key into a file that nobody else can read.
fn write_key(place: &Place, name: &str, key: &str) {
    place.write(name, key);
    fs::set_permissions(place.path(name), fs::Permissions::from_mode(0o600)).unwrap();
}

/// The paths of all units.
fn units() -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join("samples/systemd")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_unit = |path: &PathBuf| {
        path.extension()
            .is_some_and(|kind| kind == "service" || kind == "timer")
    };
    let units: Vec<_> = paths.filter(is_unit).collect();
    assert_eq!(units.len(), 5);
    units
}

#[test]
fn systemd_accepts_the_units() {
    let place = Place::new();
    let mut names = Vec::new();
    for unit in units() {
        let name = unit.file_name().unwrap().to_str().unwrap().to_owned();
        // The program is where the package puts it, which need not exist here.
        let text = fs::read_to_string(&unit).unwrap();
        place.write(&name, text.replace("/usr/bin/rescore", RESCORE));
        names.push(name);
    }
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .args(&names)
        .current_dir(place.path("."))
        .env(
            "SYSTEMD_UNIT_PATH",
            format!("{}:", place.path(".").display()),
        )
        .output();
    let Ok(output) = verified else {
        println!("skipped: systemd-analyze is not installed");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    // It also speaks of units of the machine.
    let about_ours: Vec<_> = said
        .lines()
        .filter(|line| line.contains("rescore"))
        .collect();
    assert!(about_ours.is_empty() && output.status.success(), "{said}");
}

#[test]
fn the_command_of_the_nightly_unit_scores_with_the_key_that_systemd_passes_on() {
    let server = Server::good();
    let place = Place::with("users.csv", users::csv(3));
    nightly_settings(&place, &server);
    fs::create_dir(place.path("credentials")).unwrap();
    write_key(&place, "credentials/rescore-api-key", "key-of-systemd");
    let unit = document("samples/systemd/rescore-nightly.service");
    let command = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let here = place.path(".").to_str().unwrap().to_owned();
    let command = { command.unwrap() }
        .replace("/var/lib/rescore", &here)
        .replace("/etc/rescore", &here);
    let words = command.strip_prefix("/usr/bin/rescore ").unwrap();
    let credential = "\nLoadCredential=rescore-api-key:/etc/rescore/api-key\n";
    assert!(unit.contains(credential));
    for night in 1..=2 {
        let done = { place.rescore(words.split(' ')) }
            .env("CREDENTIALS_DIRECTORY", place.path("credentials"))
            .done();
        done.exits(0);
        // The second night finds all answers in the ledger.
        assert_eq!(server.calls(), 3, "night {night}");
    }
    let request = server.requests().pop().unwrap();
    assert_eq!(
        request.header("authorization"),
        Some("Bearer key-of-systemd")
    );
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(3)));

    let unit = document("samples/systemd/rescore-prune.service");
    let command = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let command = command.unwrap().replace("/var/lib/rescore", &here);
    let words = command.strip_prefix("/usr/bin/rescore ").unwrap();
    let done = place.rescore(words.split(' ')).done();
    done.exits(0);
    done.check(
        String::from_utf8_lossy(&done.stdout).contains("removed 0 answers"),
        "it prunes the ledger of the nightly runs",
    );
}

/// Runs the script for cron. `rescore` is what `place` has in `bin`.
fn cron(place: &Place) -> Output {
    let path = std::env::var("PATH").unwrap();
    Command::new(root().join("samples/cron/rescore-nightly"))
        .current_dir(place.path("."))
        .env_clear()
        .env("PATH", format!("{}:{path}", place.path("bin").display()))
        .env("NIGHTLY_INPUT", place.path("users.csv"))
        .env("NIGHTLY_CONFIG", place.path("nightly.toml"))
        .env("NIGHTLY_STARTS", "3")
        .env("NIGHTLY_PAUSE", "0")
        .env("RESCORE_API_KEY_FILE", place.path("key"))
        .output()
        .unwrap()
}

/// Puts a script of this text where the script for cron finds `rescore`.
fn program(place: &Place, text: &str) {
    fs::create_dir_all(place.path("bin")).unwrap();
    place.write("bin/rescore", format!("#!/bin/sh\n{text}\n"));
    fs::set_permissions(place.path("bin/rescore"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_script_for_cron_and_the_unit_start_again_only_if_that_can_help() {
    let unit = document("samples/systemd/rescore-nightly.service");
    let prevent = |line: &str| Some(line.strip_prefix("RestartPreventExitStatus=")?.to_owned());
    let prevented = unit.lines().find_map(prevent).unwrap();
    let prevented: Vec<i32> = prevented
        .split(' ')
        .map(|code| code.parse().unwrap())
        .collect();
    for (code, starts, words) in [
        (0, 1, ""),
        (1, 1, "no verdict"),
        (2, 1, "settings or the input"),
        (3, 3, "stopped early, and gave up after 3 starts"),
        (4, 1, "refuses"),
        (5, 1, "a limit of yours"),
        (70, 1, "bug"),
        (75, 3, "another run holds"),
        (124, 1, "time limit"),
        (129, 1, "interrupted"),
        (130, 1, "interrupted"),
        (137, 3, "killed"),
        (143, 1, "interrupted"),
        (99, 1, "unknown"),
    ] {
        if (1..=75).contains(&code) {
            assert_eq!(prevented.contains(&code), starts == 1, "{code}");
        }
        let place = Place::new();
        program(&place, &format!("echo start >> starts; exit {code}"));
        let output = cron(&place);
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(place.text("starts").lines().count(), starts, "{code}");
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said.is_empty(), words.is_empty(), "{code}: {said}");
        assert!(said.contains(words), "{code}: {said}");
        assert!(output.stderr.is_empty(), "{code}");
    }
    // A run that succeeds at its second start leaves nothing to say.
    let place = Place::new();
    program(
        &place,
        "echo start >> starts; [ -e again ] || { touch again; exit 3; }",
    );
    let output = cron(&place);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    assert_eq!(place.text("starts").lines().count(), 2);
}

#[test]
fn the_script_for_cron_runs_the_program_and_mails_only_what_somebody_should_know() {
    let server = Server::good();
    let place = Place::with("users.csv", users::csv(3));
    nightly_settings(&place, &server);
    write_key(&place, "key", "key-of-the-file");
    program(&place, &format!("exec {RESCORE} \"$@\""));
    let output = cron(&place);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), said.as_str()), (Some(0), ""));
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(3)));

    place.write("users.csv", users::csv(3) + "Bad,,nowhere,,\n");
    let output = cron(&place);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("scored.rejects.csv"), "{said}");
}

#[test]
fn shellcheck_accepts_the_script_for_cron() {
    let script = root().join("samples/cron/rescore-nightly");
    match Command::new("shellcheck").arg(script).output() {
        Ok(output) => assert!(output.status.success(), "{output:?}"),
        Err(_) => println!("skipped: shellcheck is not installed"),
    }
}
