//! One ledger for each user: who is paid for is not paid for again, whatever the files are called; a ledger that is not there is
//! noticed; and a group may share one.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use crate::support::ledger_file;
use crate::support::process::{Arguments, Done, LEDGER, Place, Program};
use crate::support::server::Server;
use crate::support::users;

/// A group and two users in it; nobody here has these numbers.
const GROUP: u32 = 64_206;
const ANN: &[&str] = &[
    "setpriv",
    "--reuid=64201",
    "--regid=64201",
    "--groups=64206",
];
const BEN: &[&str] = &[
    "setpriv",
    "--reuid=64202",
    "--regid=64202",
    "--groups=64206",
];
const EVE: &[&str] = &[
    "setpriv",
    "--reuid=64203",
    "--regid=64203",
    "--clear-groups",
];

/// The program with the ledger of a user whose home is `home`; `None` in a container, where that would be lost.
fn at_home<'a, K>(
    place: &'a Place,
    server: &'a Server,
    args: impl Arguments<K>,
) -> Option<Program<'a>> {
    fs::create_dir_all(place.path("home")).unwrap();
    let in_place = |program: Program<'a>| {
        let program = program.without_env("RESCORE_LEDGER");
        program.env("HOME", place.path("home"))
    };
    let looked = in_place(place.rescore("ledger stats")).done();
    if looked.stderr.contains("lost with this container") {
        println!("skipped: no file system here outlives this container");
        return None;
    }
    Some(in_place(place.run(server, args)))
}

#[test]
fn the_same_users_cost_nothing_again_wherever_and_in_whatever_form_their_file_is() {
    let csv = users::csv(20);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let Some(first) = at_home(&place, &server, "users.csv -o out/scored.csv") else {
        return;
    };
    for directory in ["out", "nov", "parts"] {
        fs::create_dir(place.path(directory)).unwrap();
    }
    first.exits(0);
    assert_eq!(server.calls(), 20);
    assert!(
        place
            .path("home/.local/state/rescore/rescore.ledger")
            .exists()
    );
    fs::rename(place.path("out/scored.csv"), place.path("scored.csv")).unwrap();
    let cut = csv.find("11,").unwrap();
    let header = csv.lines().next().unwrap();
    place.write("parts/1.csv", &csv[..cut]);
    place.write("parts/2.csv", format!("{header}\n{}", &csv[cut..]));
    let object = |line: &str| {
        let cells: Vec<_> = line.split(',').collect();
        let pairs = header
            .split(',')
            .zip(cells)
            .map(|(name, cell)| format!("\"{name}\":\"{cell}\""));
        format!("{{{}}}\n", pairs.collect::<Vec<_>>().join(","))
    };
    place.write(
        "users.jsonl",
        csv.lines().skip(1).map(object).collect::<String>(),
    );
    for args in [
        "users.csv -o out/scored.csv",
        "users.csv -o nov/b.csv",
        "parts/1.csv parts/2.csv --output-dir outs",
        "users.jsonl -o scored.jsonl",
        "scored.csv -o again.csv",
        "users.csv",
    ] {
        at_home(&place, &server, args).unwrap().exits(0);
        assert_eq!(server.calls(), 20, "{args}");
    }
    for output in ["out/scored.csv", "nov/b.csv", "again.csv"] {
        assert_eq!(place.text(output), users::scored(&csv), "{output}");
    }
    let check = place.rescore("check users.csv -o dec/h.csv --json");
    let check = check
        .without_env("RESCORE_LEDGER")
        .env("HOME", place.path("home"))
        .done();
    let numbers = ["calls", "known"].map(|key| check.exits(0).json()[key].as_u64());
    assert_eq!(numbers, [Some(0), Some(20)]);
}

#[test]
fn verdicts_that_the_ledger_did_not_pay_for_stop_a_run_before_its_first_call() {
    let (csv, server) = (users::csv(30), Server::good());
    let place = Place::with("users.csv", &csv);
    place.score(&server, "").exits(0);
    fs::rename(place.path(LEDGER), place.path("moved")).unwrap();
    let refused = |args: &str, file: &str| {
        let done = place.run(&server, args).exits(2);
        done.says(&format!("`{file}` has 30 verdicts")).says(LEDGER);
        done.says("--fresh").silent_about("nothing is paid for");
        assert_eq!(server.calls(), 30, "{args}");
        assert!(!place.path(LEDGER).exists(), "{args}");
        assert_eq!(place.text("scored.csv"), users::scored(&csv));
    };
    fs::create_dir(place.path("dir")).unwrap();
    fs::copy(place.path("scored.csv"), place.path("dir/users.csv")).unwrap();
    // The output that it would replace, its input, and both for many files and rows that come through a pipe.
    refused("users.csv -o scored.csv --overwrite --quiet", "scored.csv");
    refused(
        "users.csv -o scored.csv --overwrite --max-age 30d",
        "scored.csv",
    );
    refused("scored.csv -o new.csv --quiet", "scored.csv");
    refused("users.csv --output-dir dir --overwrite", "dir/users.csv");
    refused("- -o scored.csv --overwrite", "scored.csv");
    // With the ledger back, nothing is paid for, also where most rows are new.
    fs::rename(place.path("moved"), place.path(LEDGER)).unwrap();
    place.score(&server, "--overwrite").exits(0);
    place.run(&server, "scored.csv -o new.csv").exits(0);
    assert_eq!(server.calls(), 30);
    place.write("users.csv", users::csv(33));
    place.score(&server, "--overwrite").exits(0);
    assert_eq!(server.calls(), 33);
    // A run wrote this file, so a ledger without its answers was pruned, and is not a lost one.
    ledger_file::age(&place.path(LEDGER), &server, 3 * 24 * 60 * 60 * 1_000);
    let prune = place.rescore("ledger prune --older-than 2d --yes").exits(0);
    prune.prints("removed 33 answers");
    place.score(&server, "--overwrite").exits(0);
    assert_eq!(server.calls(), 66);
    // The word that pays.
    fs::remove_file(place.path(LEDGER)).unwrap();
    place.score(&server, "--overwrite --fresh").exits(0);
    assert_eq!(server.calls(), 99);
}

#[test]
fn without_a_place_that_lasts_nothing_is_sent_and_the_way_out_is_named() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    let bare = || place.scoring(&server).without_env("RESCORE_LEDGER");
    let refused = |program: Program<'_>, words: &str| {
        program
            .exits(2)
            .says(words)
            .says("RESCORE_LEDGER")
            .silent_about("--no-ledger");
    };
    refused(bare(), "HOME");
    refused(bare().env("HOME", "home"), "HOME");
    refused(
        bare().env("XDG_STATE_HOME", place.path("users.csv")),
        "make the directory",
    );
    // What is in memory is lost with a container, but made-up answers are no loss.
    if cfg!(target_os = "linux") {
        let in_memory = tempfile::tempdir_in("/dev/shm").unwrap();
        let container = |program: Program<'_>| -> Done {
            let program = program
                .without_env("RESCORE_LEDGER")
                .env("HOME", in_memory.path());
            program.env("KUBERNETES_SERVICE_HOST", "10.0.0.1").done()
        };
        let done = container(place.scoring(&server));
        done.exits(2)
            .says("lost with this container")
            .says("RESCORE_LEDGER");
        container(place.rescore("check users.csv"))
            .exits(2)
            .says("lost with this container");
        container(place.rescore("run users.csv -o made-up.csv --sandbox")).exits(0);
        let state = in_memory.path().join(".local/state/rescore");
        assert!(state.join("sandbox.ledger").exists() && !state.join(LEDGER).exists());
    }
    assert_eq!(server.calls(), 0);
    place.score(&server, "").exits(0);
}

#[test]
fn a_settings_file_names_the_ledger_for_all_commands() {
    let (place, server) = (Place::with("users.csv", users::csv(5)), Server::good());
    place.write("settings.toml", "ledger = 'ours.ledger'\nmax-calls = 3\n");
    let bare = |program: Program<'_>| {
        let program = program
            .without_env("RESCORE_LEDGER")
            .env("RESCORE_CONFIG", "settings.toml");
        program.done()
    };
    bare(place.scoring(&server)).exits(5);
    let check = bare(place.rescore("check users.csv --json"));
    assert_eq!(check.exits(0).json()["known"], 3);
    bare(place.rescore("ledger stats"))
        .exits(0)
        .prints("ours.ledger: ")
        .prints("3 answers");
    let typed = place.rescore("ledger prune --older-than 30d --config settings.toml");
    typed
        .without_env("RESCORE_LEDGER")
        .exits(0)
        .prints("ours.ledger: removed 0");
    bare(place.rescore("ledger forget users.csv"))
        .exits(0)
        .prints("forgot 3 answers");
    // What is typed comes first.
    bare(place.rescore("ledger stats other.ledger"))
        .exits(2)
        .says("other.ledger");
    assert_eq!(
        place.names(),
        [
            "ours.ledger",
            "scored.csv.partial",
            "settings.toml",
            "users.csv"
        ]
    );
}

#[test]
fn a_group_shares_a_ledger_and_what_others_may_have_put_there_is_not_believed() {
    let place = Place::with("users.csv", users::csv(9));
    let mode = |name: &str, mode| {
        fs::set_permissions(place.path(name), Permissions::from_mode(mode)).unwrap();
    };
    let is_root = fs::metadata(place.path("")).unwrap().uid() == 0;
    mode("", 0o777);
    if !is_root || place.rescore("--version").under(ANN).done().code() != Some(0) {
        println!("skipped: the program cannot be run by other users");
        return;
    }
    let server = Server::good();
    let run = |user, output: &str, ledger: &str| {
        let run = place.run(&server, ["users.csv", "-o", output, "--ledger", ledger]);
        run.under(user).done()
    };
    // As `install` makes them.
    fs::create_dir(place.path("group")).unwrap();
    place.write("group/ledger", "");
    for (name, bits) in [("group", 0o2770), ("group/ledger", 0o660)] {
        chown(place.path(name), None, Some(GROUP)).unwrap();
        mode(name, bits);
    }
    run(ANN, "ann.csv", "group/ledger").exits(0);
    run(BEN, "ben.csv", "group/ledger").exits(0);
    assert_eq!(server.calls(), 9);
    let there = fs::metadata(place.path("group/ledger")).unwrap();
    assert_eq!((there.mode() & 0o777, there.gid()), (0o660, GROUP));
    // It was made for its owner alone, who is named.
    run(ANN, "ann2.csv", "group/private").exits(0);
    let done = run(BEN, "ben2.csv", "group/private");
    done.exits(2)
        .says("chmod g+rw")
        .says("user 64201")
        .silent_about("--no-ledger");
    // Somebody has put one there for others to find.
    run(EVE, "eve.csv", "found").exits(0);
    for (bits, words) in [(0o666, "everybody may write to it"), (0o644, "user 64203")] {
        mode("found", bits);
        let done = run(BEN, "ben3.csv", "found");
        done.exits(2).says(words).silent_about("--no-ledger");
    }
    let state = "home/.local/state/rescore";
    fs::create_dir_all(place.path(state)).unwrap();
    fs::rename(
        place.path("found"),
        place.path(&format!("{state}/{LEDGER}")),
    )
    .unwrap();
    let calls = server.calls();
    if let Some(mine) = at_home(&place, &server, "users.csv -o mine.csv") {
        mine.exits(2).says("belongs to another user");
    }
    assert_eq!(server.calls(), calls);
}
