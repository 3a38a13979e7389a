//! The samples for systemd and cron do what they say.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::docs::documents::{document, root};
use crate::support::process::Place;
use crate::support::server::Server;
use crate::support::users;

/// The program that the tests run.
const RESCORE: &str = env!("CARGO_BIN_EXE_rescore");

/// A directory with users, the settings of the nightly job for this server, and a key that nobody else can read.
fn nightly(server: &Server) -> Place {
    let place = Place::with("users.csv", users::csv(3));
    let here = place.path(".").to_str().unwrap().to_owned();
    let settings = document("samples/nightly.toml")
        .replace("https://api.example.com", &server.url())
        .replace("/var/lib/rescore", &here);
    place.write("nightly.toml", settings);
    place.write("rescore-api-key", "a-key-in-a-file");
    let mode = fs::Permissions::from_mode(0o600);
    fs::set_permissions(place.path("rescore-api-key"), mode).unwrap();
    place
}

/// The value of a setting of a unit.
fn setting(unit: &str, name: &str) -> String {
    let unit = document(&format!("samples/systemd/{unit}"));
    let mut values = unit.lines().filter_map(|line| line.strip_prefix(name));
    values.next().unwrap().to_owned()
}

/// Runs a program that may be missing here; it must neither fail nor speak of rescore.
fn accepts(command: &mut Command) {
    let Ok(output) = command.output() else {
        println!("skipped: {command:?} is not installed");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    // systemd also speaks of units of the machine.
    let is_fine = output.status.success() && !said.contains("rescore");
    assert!(is_fine, "{said}");
}

#[test]
fn systemd_and_shellcheck_accept_the_samples() {
    let place = Place::new();
    let here = place.path(".");
    let mut units = Vec::new();
    for entry in fs::read_dir(root().join("samples/systemd")).unwrap() {
        let path = entry.unwrap().path();
        let kind = path.extension().unwrap();
        if kind == "d" {
            let name = path.file_name().unwrap().to_str().unwrap();
            fs::create_dir(place.path(name)).unwrap();
            let changes = fs::read(path.join("many-nights.conf")).unwrap();
            place.write(&format!("{name}/many-nights.conf"), changes);
        }
        if kind == "service" || kind == "timer" {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            // The program is where the package puts it, which need not exist here.
            let text = fs::read_to_string(&path).unwrap();
            place.write(&name, text.replace("/usr/bin/rescore", RESCORE));
            units.push(name);
        }
    }
    let mut systemd = Command::new("systemd-analyze");
    systemd.args(["verify", "--man=no"]).args(units);
    let path = format!("{}:", here.display());
    accepts(systemd.current_dir(here).env("SYSTEMD_UNIT_PATH", path));
    let scripts = ["samples/cron/rescore-nightly", "samples/prove"];
    accepts(Command::new("shellcheck").args(scripts.map(|script| root().join(script))));
}

#[test]
fn the_nightly_unit_scores_with_the_key_that_systemd_passes_on_and_the_other_one_prunes() {
    let server = Server::good();
    let place = nightly(&server);
    let here = place.path(".").to_str().unwrap().to_owned();
    let run = |unit: &str| {
        let command = setting(unit, "ExecStart=/usr/bin/rescore ")
            .replace("/var/lib/rescore", &here)
            .replace("/etc/rescore", &here);
        let done = { place.rescore(command.split(' ')) }
            .env("CREDENTIALS_DIRECTORY", &here)
            .exits(0);
        done.printed()
    };
    let credential = setting("rescore-nightly.service", "LoadCredential=");
    assert!(credential.starts_with("rescore-api-key:"), "{credential}");
    for night in 1..=2 {
        run("rescore-nightly.service");
        // The second night finds all answers in the ledger.
        assert_eq!(server.calls(), 3, "night {night}");
    }
    let request = server.requests().pop().unwrap();
    let key = request.header("authorization");
    assert_eq!(key, Some("Bearer a-key-in-a-file"));
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(3)));
    assert!(run("rescore-prune.service").contains("removed 0 answers"));
}

/// Runs the script for cron, with a `rescore` that is this script.
fn cron(place: &Place, rescore: &str) -> Output {
    fs::create_dir_all(place.path("bin")).unwrap();
    place.write("bin/rescore", format!("#!/bin/sh\n{rescore}\n"));
    fs::set_permissions(place.path("bin/rescore"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    Command::new(root().join("samples/cron/rescore-nightly"))
        .current_dir(place.path("."))
        .env_clear()
        .env("PATH", format!("{}:{path}", place.path("bin").display()))
        .env("NIGHTLY_INPUT", place.path("users.csv"))
        .env("NIGHTLY_CONFIG", place.path("nightly.toml"))
        .env("NIGHTLY_STARTS", "3")
        .env("NIGHTLY_PAUSE", "0")
        .env("RESCORE_API_KEY_FILE", place.path("rescore-api-key"))
        .output()
        .unwrap()
}

#[test]
fn the_script_for_cron_and_the_unit_start_again_only_if_that_can_help() {
    let prevented = setting("rescore-nightly.service", "RestartPreventExitStatus=");
    let prevented: Vec<i32> = { prevented.split(' ') }
        .map(|code| code.parse().unwrap())
        .collect();
    let once = [0, 1, 2, 4, 5, 70, 129, 130, 143, 99].map(|code| (code, 1));
    for (code, starts) in once.into_iter().chain([(3, 3), (75, 3), (137, 3)]) {
        if (1..=75).contains(&code) {
            assert_eq!(prevented.contains(&code), starts == 1, "{code}");
        }
        let place = Place::new();
        let output = cron(&place, &format!("echo start >> starts; exit {code}"));
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(place.text("starts").lines().count(), starts, "{code}");
        // Cron mails what is printed.
        assert_eq!(output.stdout.is_empty(), code == 0, "{code}");
        assert!(output.stderr.is_empty(), "{code}");
    }
    // A run that succeeds at its second start leaves nothing to say.
    let again = "echo start >> starts; [ -e again ] || { touch again; exit 3; }";
    let place = Place::new();
    let output = cron(&place, again);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    assert_eq!(place.text("starts").lines().count(), 2);
}

#[test]
fn the_script_for_cron_mails_only_what_somebody_should_know() {
    let server = Server::good();
    let place = nightly(&server);
    let rescore = format!("exec {RESCORE} \"$@\"");
    let output = cron(&place, &rescore);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(3)));

    // A ledger on a disk that is not mounted is not one that is new.
    fs::rename(place.path("rescore.ledger"), place.path("moved")).unwrap();
    let output = cron(&place, &rescore);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), server.calls()),
        (Some(2), 3),
        "{said}"
    );
    for words in ["scored.csv` has 3 verdicts", "rescore.ledger"] {
        assert!(said.contains(words), "{said}");
    }
    fs::rename(place.path("moved"), place.path("rescore.ledger")).unwrap();

    place.write("users.csv", users::csv(3) + "Bad,,nowhere,,\n");
    let output = cron(&place, &rescore);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("scored.rejects.csv"), "{said}");
}

#[test]
fn the_proof_holds_and_is_no_proof_for_a_program_that_changes_a_byte() {
    // With one cell more in each row.
    let script = format!(
        "#!/bin/sh\n[ $1 = run ] && set -- \"$@\" --column more=/status\nexec {RESCORE} \"$@\"\n"
    );
    let place = Place::with("changes-a-byte", script);
    let mode = fs::Permissions::from_mode(0o700);
    fs::set_permissions(place.path("changes-a-byte"), mode).unwrap();
    let prove = |program: &std::ffi::OsStr, users: &str| {
        let mut command = Command::new(root().join("samples/prove"));
        let output = command.arg("1").arg(program).arg(users).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), said)
    };
    let (holds, said) = prove(RESCORE.as_ref(), "4000");
    assert!(
        holds && said.contains("4000 rows, bytes equal, seed 1"),
        "{said}"
    );
    let (holds, said) = prove(place.path("changes-a-byte").as_ref(), "300");
    assert!(
        !holds && said.ends_with("FAILED, seed 1: the bytes differ\n"),
        "{said}"
    );
}
