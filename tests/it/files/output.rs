//! Where the output goes: whole or not at all, and never over something else.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, symlink};

use crate::support::process::{Done, Place};
use crate::support::server::{Server, good, status};
use crate::support::users;

#[test]
fn nothing_but_the_output_and_the_ledger_is_left_behind() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    place.score(&server, "").exits(0);
    assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
    assert_eq!(place.text("users.csv"), users::csv(3));
}

#[test]
fn an_existing_output_is_replaced_only_when_asked_and_keeps_its_mode() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    place.write("scored.csv", "precious");
    fs::set_permissions(place.path("scored.csv"), fs::Permissions::from_mode(0o600)).unwrap();
    place
        .score(&server, "")
        .exits(2)
        .says("`scored.csv`")
        .says("--overwrite");
    assert_eq!(
        (place.text("scored.csv").as_str(), server.calls()),
        ("precious", 0)
    );
    place.score(&server, "--overwrite").exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(3)));
    let mode = fs::metadata(place.path("scored.csv"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn no_file_that_is_written_replaces_a_ledger() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    place.score(&server, "--ledger paid").exits(0);
    let (ledger, calls) = (fs::read(place.path("paid")).unwrap(), server.calls());
    let is_refused = |done: Done| {
        let done = done.exits(2);
        done.says("`paid` is a database, such as a ledger, and is not replaced");
    };
    for files in [
        "-o paid",
        "-o again.csv --rejects paid",
        "-o again.csv --report paid",
        "-o again.csv --changes paid",
    ] {
        let run = place.run(&server, "scored.csv").args(files);
        let program = run.args("--no-ledger --overwrite");
        is_refused(program.done());
    }
    for command in [
        "decide scored.csv -o paid --overwrite",
        "report scored.csv -o paid --overwrite",
    ] {
        is_refused(place.rescore(command).done());
    }
    assert_eq!(fs::read(place.path("paid")).unwrap(), ledger);
    assert_eq!(server.calls(), calls);
}

#[test]
fn a_run_that_fails_leaves_the_old_output_as_it_was() {
    let place = Place::with("users.csv", users::csv(3));
    place.write("scored.csv", "precious");
    let server = Server::start(|_| status(401));
    place.score(&server, "--overwrite").exits(4);
    assert_eq!(place.text("scored.csv"), "precious");
    assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
}

#[test]
fn the_input_is_never_the_output_not_even_through_links() {
    let (csv, server) = (users::csv(3), Server::good());
    let place = Place::with("users.csv", &csv);
    symlink("users.csv", place.path("soft.csv")).unwrap();
    fs::hard_link(place.path("users.csv"), place.path("hard.csv")).unwrap();
    fs::create_dir(place.path("sub")).unwrap();
    for output in [
        "users.csv",
        "./users.csv",
        "sub/../users.csv",
        "soft.csv",
        "hard.csv",
    ] {
        for input in ["users.csv", "soft.csv"] {
            for overwrite in [true, false] {
                let program = place.run(&server, [input, "-o", output]);
                let program = if overwrite {
                    program.arg("--overwrite")
                } else {
                    program
                };
                let done = program.done();
                done.exits(2).says("would overwrite the input");
            }
        }
    }
    assert_eq!((place.text("users.csv"), server.calls()), (csv, 0));
}

#[test]
fn rejects_and_summary_never_overwrite_input_or_output() {
    let (csv, server) = (users::csv(3), Server::good());
    for args in [
        ["--rejects", "users.csv"],
        ["--rejects", "scored.csv"],
        ["--summary", "users.csv"],
        ["--summary", "scored.csv"],
    ] {
        let place = Place::with("users.csv", &csv);
        place
            .run(
                &server,
                [
                    "users.csv",
                    "-o",
                    "scored.csv",
                    "--overwrite",
                    args[0],
                    args[1],
                ],
            )
            .done()
            .exits(2);
        assert_eq!(
            (place.text("users.csv"), place.names()),
            (csv.clone(), vec!["users.csv".to_owned()])
        );
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_summary_replaces_only_an_earlier_summary() {
    let (csv, server) = (users::csv(3), Server::good());
    let place = Place::with("users.csv", &csv);
    let settings = "rate = \"50/s\"\n";
    place.write("config.toml", settings);
    let line = |summary: &str| {
        let files = ["users.csv", "-o", "scored.csv", "--config", "config.toml"];
        let run = place.run(&server, files);
        run.args(["--overwrite", "--summary", summary]).done()
    };
    let before = place.names();
    line("config.toml")
        .exits(2)
        .says("cannot write the summary to `config.toml`")
        .says("its content is not a summary of rescore");
    let after = (place.text("config.toml"), place.names(), server.calls());
    assert_eq!(after, (settings.to_owned(), before, 0));
    line("summary.json").exits(0);
    line("summary.json").exits(0);
    let decide = ["decide", "scored.csv", "--overwrite", "-o", "decided.csv"];
    let decide = |summary| place.rescore(decide).args(["--summary", summary]).done();
    decide("config.toml").exits(2);
    decide("summary.json").exits(0);
    decide("summary.json").exits(0);
    assert_eq!(place.text("config.toml"), settings);
}

#[test]
fn a_path_that_cannot_be_written_is_found_before_the_first_call() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    fs::create_dir(place.path("directory")).unwrap();
    for output in [
        "no/such/place.csv",
        "directory",
        "users.csv/scored.csv",
        "/proc/scored.csv",
    ] {
        place
            .run(&server, ["users.csv", "-o", output])
            .done()
            .exits(2)
            .says(output);
    }
    let run = place.run(&server, ["users.csv", "-o", "new/"]);
    run.done()
        .exits(2)
        .says("cannot write `new/`\n  it is a directory");
    for [option, name] in [
        ["-o", "no/such/scored.csv"],
        ["--output-dir", "no/such/scored"],
        ["--rejects", "no/such/rejects.csv"],
        ["--summary", "no/such/summary.json"],
        ["--log", "no/such/run.log"],
        ["--metrics", "no/such/rescore.prom"],
    ] {
        let output: &[_] = match option {
            "-o" | "--output-dir" => &[],
            _ => &["-o", "scored.csv"],
        };
        let run = place.run(&server, ["users.csv", option, name]);
        let done = run.args(output).done();
        done.exits(2)
            .says(name)
            .says("hint: create the directory `no/such` first");
    }
    symlink("no/such/scored.csv", place.path("link.csv")).unwrap();
    place
        .run(&server, "users.csv -o link.csv")
        .done()
        .exits(2)
        .says("cannot write `link.csv`: no such file or directory\n  it is a link to `no/such/scored.csv`\n\nhint: create the directory `no/such` first\n");
    assert_eq!(
        (server.calls(), place.names()),
        (
            0,
            ["directory", "link.csv", "users.csv"]
                .map(ToOwned::to_owned)
                .to_vec()
        )
    );
}

#[test]
fn the_partial_file_lies_beside_the_real_target_of_a_link() {
    let csv = users::csv(4);
    let place = Place::with("users.csv", &csv);
    fs::create_dir(place.path("real")).unwrap();
    symlink("real/target.csv", place.path("link.csv")).unwrap();
    let server = Server::start(|request| {
        if request.nth > 2 {
            status(402)
        } else {
            good(request)
        }
    });
    place
        .run(&server, "users.csv -o link.csv -c 1")
        .done()
        .exits(4);
    assert_eq!(place.names(), ["link.csv", "real", "users.csv"]);
    assert_eq!(
        place.text("real/target.csv.partial"),
        users::scored(&users::csv(2))
    );

    let server = Server::good();
    place
        .run(&server, "users.csv -o link.csv --overwrite")
        .done()
        .exits(0);
    assert!(
        fs::symlink_metadata(place.path("link.csv"))
            .unwrap()
            .is_symlink()
    );
    assert_eq!(place.text("real/target.csv"), users::scored(&csv));
    assert!(!place.path("real/target.csv.partial").exists());
}

#[test]
fn an_output_named_gz_or_zst_is_compressed() {
    let (csv, server) = (users::csv(2_000), Server::good());
    let place = Place::with("users.csv", &csv);
    for name in ["scored.csv.gz", "scored.csv.zst", "OUT.CSV.GZ"] {
        place
            .run(&server, ["users.csv", "-o", name])
            .done()
            .exits(0);
    }
    for name in ["scored.csv.gz", "OUT.CSV.GZ"] {
        let mut unpacked = String::new();
        let gzip = place.read(name);
        flate2::read::GzDecoder::new(gzip.as_slice())
            .read_to_string(&mut unpacked)
            .unwrap();
        assert!(unpacked == users::scored(&csv));
    }
    let unpacked = zstd::decode_all(place.read("scored.csv.zst").as_slice()).unwrap();
    assert!(unpacked == users::scored(&csv).as_bytes());
}

/// `ulimit -f` counts in blocks of 512 or 1,024 bytes, depending on the shell; the signal that comes with it is ignored.
#[test]
fn a_disk_that_fills_up_keeps_whole_rows_and_says_so() {
    let csv = users::csv(2_000);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place.write("limited.sh", "trap '' XFSZ\nulimit -f 160\nexec \"$@\"\n");
    let done = place
        .run(&server, "users.csv -o scored.csv --no-ledger")
        .under(&["sh", "limited.sh"])
        .done();
    done.exits(3)
        .says("error: cannot write `scored.csv.partial`: file too large");
    done.says("scored.csv.partial has the")
        .says("finished rows");
    let partial = place.text("scored.csv.partial");
    assert!(partial.ends_with('\n') && users::scored(&csv).starts_with(&partial));
    assert!(partial.lines().count() > 100, "{}", partial.lines().count());
    assert_eq!(
        place.names(),
        ["limited.sh", "scored.csv.partial", "users.csv"]
    );
}

#[test]
fn paths_that_would_overwrite_each_other_are_refused() {
    let (csv, server) = (users::csv(3), Server::good());
    for args in [
        [
            "scored.csv.partial",
            "-o",
            "scored.csv",
            "--progress",
            "off",
        ],
        [
            "users.csv",
            "-o",
            "scored.csv",
            "--summary",
            "scored.csv.partial",
        ],
        [
            "users.csv",
            "-o",
            "scored.csv",
            "--rejects",
            "scored.csv.partial",
        ],
        ["users.csv", "--rejects", "x.json", "--summary", "x.json"],
        [
            "users.csv",
            "--rejects",
            "a.csv",
            "--summary",
            "a.csv.partial",
        ],
    ] {
        let place = Place::with("users.csv", &csv);
        place.write("scored.csv.partial", &csv);
        let program = place.run(&server, args).arg("--overwrite");
        program.done().exits(2);
        assert_eq!(
            (place.text("users.csv"), place.text("scored.csv.partial")),
            (csv.clone(), csv.clone()),
            "{args:?}"
        );
        assert_eq!(place.names(), ["scored.csv.partial", "users.csv"]);
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_live_run_is_named_and_its_file_is_not_taken_for_a_leftover() {
    let (server, release) = Server::holding_if(|request| request.nth > 1);
    let place = Place::with("users.csv", users::csv(3));
    let first = place.scoring(&server).start();
    server.wait_for_calls(2);
    place
        .score(&server, "")
        .exits(75)
        .says("another run (process")
        .says("is writing `scored.csv`")
        .silent_about("move it away");
    place.write("earlier.csv", users::scored(&users::csv(3)));
    for options in [&[][..], &["--overwrite"]] {
        let decide = place.rescore("decide earlier.csv -o scored.csv");
        decide
            .args(options)
            .done()
            .exits(75)
            .says("another run is writing `scored.csv.partial`");
    }

    place
        .rescore("decide earlier.csv -o scored.csv.partial --overwrite")
        .done()
        .exits(75)
        .says("another run is writing `scored.csv.partial`");
    // If it is moved away all the same, it is not taken for the whole output.
    fs::rename(place.path("scored.csv.partial"), place.path("moved.csv")).unwrap();
    place.write("scored.csv.partial", "somebody else's");
    drop(release);
    first
        .done()
        .exits(3)
        .says("another file has taken its place");
    assert_eq!(place.text("moved.csv"), users::scored(&users::csv(3)));
    assert!(!place.names().contains(&"scored.csv".to_owned()));
}
