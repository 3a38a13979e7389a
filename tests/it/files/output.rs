//! Where the output goes: whole or not at all, never over something else, and quietly down a closed pipe.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Mutex;
use std::sync::mpsc::channel;

use crate::support::process::{Place, device};
use crate::support::server::{Server, good, status};
use crate::support::users;

#[test]
fn nothing_but_the_output_is_left_behind() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    place.score(&server, []).exits(0);
    assert_eq!(place.names(), ["scored.csv", "users.csv"]);
    assert_eq!(place.text("users.csv"), users::csv(3));
}

#[test]
fn an_existing_output_is_replaced_only_when_asked_and_keeps_its_mode() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    place.write("scored.csv", "precious");
    fs::set_permissions(place.path("scored.csv"), fs::Permissions::from_mode(0o600)).unwrap();
    place
        .score(&server, [])
        .exits(2)
        .says("`scored.csv`")
        .says("--overwrite");
    assert_eq!(
        (place.text("scored.csv").as_str(), server.calls()),
        ("precious", 0)
    );
    place.score(&server, ["--overwrite"]).exits(0);
    assert_eq!(place.text("scored.csv"), users::scored(&users::csv(3)));
    let mode = fs::metadata(place.path("scored.csv"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_run_that_fails_leaves_the_old_output_as_it_was() {
    let place = Place::with("users.csv", users::csv(3));
    place.write("scored.csv", "precious");
    let server = Server::start(|_| status(401));
    place.score(&server, ["--overwrite"]).exits(4);
    assert_eq!(place.text("scored.csv"), "precious");
    assert_eq!(place.names(), ["scored.csv", "users.csv"]);
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
                done.exits(2).says("is the input itself");
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
fn a_place_that_cannot_be_written_is_found_out_before_the_first_call() {
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
    for args in [
        ["--rejects", "no/such/rejects.csv"],
        ["--summary", "no/such/summary.json"],
    ] {
        place
            .run(&server, ["users.csv", "-o", "scored.csv", args[0], args[1]])
            .done()
            .exits(2)
            .says(args[1]);
    }
    assert_eq!(
        (server.calls(), place.names()),
        (0, vec!["directory".to_owned(), "users.csv".to_owned()])
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
        .run(&server, ["users.csv", "-o", "link.csv", "-c", "1"])
        .done()
        .exits(4);
    assert_eq!(place.names(), ["link.csv", "real", "users.csv"]);
    assert_eq!(
        place.text("real/target.csv.partial"),
        users::scored(&users::csv(2))
    );

    let server = Server::good();
    place
        .run(&server, ["users.csv", "-o", "link.csv", "--overwrite"])
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

#[test]
fn standard_output_has_the_data_alone() {
    let (csv, server) = (users::csv(3), Server::good());
    for output in [&[][..], &["-o", "-"]] {
        let place = Place::with("users.csv", &csv);
        let program = output
            .iter()
            .fold(place.run(&server, ["users.csv"]), |program, arg| {
                program.arg(arg)
            });
        let done = program.done();
        done.exits(0).says("3 rows");
        assert_eq!(String::from_utf8_lossy(&done.stdout), users::scored(&csv));
        assert_eq!(place.names(), ["users.csv"]);
    }
    let place = Place::new();
    let done = place
        .run(&server, ["-", "-o", "-", "--format", "csv"])
        .stdin(csv.as_str())
        .done();
    done.exits(0);
    assert_eq!(String::from_utf8_lossy(&done.stdout), users::scored(&csv));
}

#[test]
fn rows_flow_down_a_pipe_while_the_run_goes_on() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let server = Server::start(move |request| {
        if request.nth > 3 {
            let _ = released.lock().unwrap().recv();
        }
        good(request)
    });
    let (csv, place) = (users::csv(4), Place::with("users.csv", users::csv(4)));
    let (reader, writer) = io::pipe().unwrap();
    let running = place
        .run(&server, ["users.csv", "-c", "1"])
        .stdout(writer)
        .start();
    let mut lines = BufReader::new(reader).lines().map(Result::unwrap);
    let expected = users::scored(&csv);
    let mut expected = expected.lines();
    for _ in 0..4 {
        assert_eq!(lines.next().as_deref(), expected.next());
    }
    drop(release);
    assert_eq!(lines.next().as_deref(), expected.next());
    assert_eq!(lines.next(), None);
    running.done().exits(0);
}

#[test]
fn a_closed_pipe_ends_the_run_quietly_and_soon() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let server = Server::start(move |request| {
        if request.nth > 3 {
            let _ = released.lock().unwrap().recv();
        }
        good(request)
    });
    let place = Place::with("users.csv", users::csv(5_000));
    let (reader, writer) = io::pipe().unwrap();
    let running = place.run(&server, ["users.csv"]).stdout(writer).start();
    // As `head -n 1` does.
    let mut line = String::new();
    BufReader::new(reader).read_line(&mut line).unwrap();
    drop(release);
    let done = running.done();
    done.exits(3)
        .silent_about("error")
        .silent_about("roken pipe");
    done.check(server.calls() < 5_000, "no call for rows that nobody reads");
}

#[test]
fn a_full_device_is_said_and_is_no_panic() {
    let (place, server) = (Place::with("users.csv", users::csv(2_000)), Server::good());
    let done = place
        .run(&server, ["users.csv"])
        .stdout(device("/dev/full"))
        .done();
    done.exits(3)
        .says("cannot write standard output")
        .says("no space left");
    place
        .run(&server, ["users.csv", "-o", "/dev/full"])
        .done()
        .exits(3)
        .says("/dev/full")
        .says("no space left");
    assert!(server.calls() < 4_000, "{} calls", server.calls());
}

#[test]
fn rejects_go_where_they_are_asked_to_and_are_absent_when_there_are_none() {
    let csv = format!("{}9,,u@x.org,::1,u\n", users::csv(1));
    let server = Server::good();
    let place = Place::with("users.csv", &csv);
    place
        .score(&server, ["--rejects", "bad.csv"])
        .exits(1)
        .says("bad.csv");
    assert_eq!(
        place.names(),
        ["bad.csv", "scored.csv", "scored.csv.ledger", "users.csv"]
    );
    let expected = "reject_row,reject_reason,reject_message,id,name,email,ip,user_agent\n\
        2,missing_name,line 3: no name,9,,u@x.org,::1,u\n";
    assert_eq!(place.text("bad.csv"), expected);

    // Rejects that were mended leave no old rejects behind that could be taken for new ones.
    place.write("users.csv", users::csv(1));
    place
        .score(&server, ["--rejects", "bad.csv", "--overwrite"])
        .exits(0);
    assert_eq!(place.names(), ["scored.csv", "users.csv"]);
}

#[test]
fn rejects_can_be_mended_and_run_again() {
    let server = Server::good();
    let place = Place::with(
        "users.csv",
        "name,email,ip,user_agent\r\n\"A, B\",a@x.org,1.1.1,u\r\n",
    );
    place.score(&server, []).exits(1);
    place.write(
        "mended.csv",
        place
            .text("scored.rejects.csv")
            .replace("1.1.1,u", "1.1.1.1,u"),
    );
    place
        .run(&server, ["mended.csv", "-o", "again.csv"])
        .done()
        .exits(0);
    assert_eq!(server.only_request().name(), "A, B");
}

/// `ulimit -f` counts in blocks of 512 or 1,024 bytes, depending on the shell; the signal that comes with it is ignored.
#[test]
fn a_disk_that_fills_up_keeps_whole_rows_and_says_so() {
    let csv = users::csv(2_000);
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    place.write("limited.sh", "trap '' XFSZ\nulimit -f 40\nexec \"$@\"\n");
    let done = place
        .run(
            &server,
            [
                "users.csv",
                "-o",
                "scored.csv",
                "--no-ledger",
                "--no-dedupe",
            ],
        )
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
fn a_device_that_takes_the_rejects_is_not_removed() {
    let (place, server) = (Place::with("users.csv", users::csv(1)), Server::good());
    // What root would lose for the whole machine.
    symlink("/dev/null", place.path("null")).unwrap();
    place.score(&server, ["--rejects", "null"]).exits(0);
    assert_eq!(place.names(), ["null", "scored.csv", "users.csv"]);
}

#[test]
fn rejects_that_cannot_be_written_cost_no_paid_row() {
    let csv = format!("{}9,,u@x.org,::1,u\n", users::csv(30));
    let (place, server) = (Place::with("users.csv", &csv), Server::good());
    let done = place.score(&server, ["--rejects", "/dev/full"]);
    done.exits(3)
        .says("/dev/full")
        .says("no space left")
        .says("scored.csv.partial has the");
    let partial = place.text("scored.csv.partial");
    assert_eq!(partial, users::scored_without(&csv, str::is_empty));
}

#[test]
fn places_that_would_be_written_over_each_other_are_refused() {
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
fn a_run_that_is_alive_is_named_and_its_file_is_not_taken_for_a_left_over() {
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let server = Server::start(move |request| {
        if request.nth > 1 {
            let _ = released.lock().unwrap().recv();
        }
        good(request)
    });
    let place = Place::with("users.csv", users::csv(3));
    let first = place
        .run(&server, ["users.csv", "-o", "scored.csv"])
        .start();
    server.wait_for_calls(2);
    place
        .score(&server, [])
        .exits(2)
        .says("another run (process")
        .says("is writing `scored.csv`")
        .silent_about("move it away");

    // Moved away all the same, it is not passed off as the whole.
    fs::rename(place.path("scored.csv.partial"), place.path("moved.csv")).unwrap();
    place.write("scored.csv.partial", "somebody else's");
    drop(release);
    first.done().exits(3).says("somebody else's file");
    assert_eq!(place.text("moved.csv"), users::scored(&users::csv(3)));
    assert!(!place.names().contains(&"scored.csv".to_owned()));
}

#[test]
fn standard_output_can_be_named_as_a_device() {
    let (csv, server) = (users::csv(3), Server::good());
    let place = Place::with("users.csv", &csv);
    let done = place
        .run(&server, ["users.csv", "-o", "/dev/stdout"])
        .done();
    done.exits(0);
    assert_eq!(String::from_utf8_lossy(&done.stdout), users::scored(&csv));
}

#[test]
fn only_input_and_output_can_be_streams() {
    let (place, server) = (Place::with("users.csv", users::csv(3)), Server::good());
    for file in ["--summary", "--ledger", "--changes", "--rejects"] {
        place
            .score(&server, [file, "-"])
            .exits(2)
            .says("this must be a file and not a stream")
            .says(file);
        let variable: &'static str = match file {
            "--summary" => "RESCORE_SUMMARY",
            "--ledger" => "RESCORE_LEDGER",
            "--changes" => "RESCORE_CHANGES",
            _ => "RESCORE_REJECTS",
        };
        let run = place.run(&server, ["users.csv", "-o", "scored.csv"]);
        run.env(variable, "-").done().exits(2);
        assert_eq!(
            (place.names(), server.calls()),
            (vec!["users.csv".to_owned()], 0)
        );
    }
    place.score(&server, ["--summary", "./-"]).exits(0);
    assert_eq!(place.names(), ["-", "scored.csv", "users.csv"]);
}

#[test]
fn a_reject_that_fails_again_has_its_reason_once() {
    let server = Server::good();
    let ends = |name: &str, lines: &str, expected: &str| {
        let (input, output) = (format!("fixed.{name}"), format!("again.{name}"));
        let place = Place::with(&input, lines);
        let program = place.run(&server, []).arg(&input);
        program.arg("-o").arg(&output).done().exits(1);
        assert_eq!(place.text(&format!("again.rejects.{name}")), expected);
        // The output is the input with our columns, also these.
        let scored = place.text(&output);
        let first = lines.lines().next().unwrap();
        assert!(scored.starts_with(first.trim_end_matches('}')), "{scored}");
    };
    let head = "reject_row,reject_reason,reject_message";
    ends(
        "csv",
        &format!(
            "{head},name,email,ip,user_agent\n7,invalid_ip,\"line 8: \"\"x\"\", so\",A,a@x.org,1.1.1.1,u\n9,missing_name,line 10: no name,,b@x.org,::1,u\n"
        ),
        &format!(
            "{head},name,email,ip,user_agent\n2,missing_name,line 3: no name,,b@x.org,::1,u\n"
        ),
    );
    // As some programs write it again, with another delimiter and everything in quotes.
    ends(
        "csv",
        "\"reject_row\";\"reject_reason\";\"reject_message\";\"name\";\"email\";\"ip\";\"user_agent\"\n\"9\";\"missing_name\";\"a;\"\"b\"\"\";\"\";\"b@x.org\";\"::1\";\"u\"\n",
        "reject_row;reject_reason;reject_message;\"name\";\"email\";\"ip\";\"user_agent\"\n1;missing_name;line 2: no name;\"\";\"b@x.org\";\"::1\";\"u\"\n",
    );
    // Columns of these names that stand elsewhere are the user's.
    ends(
        "csv",
        "name,email,ip,user_agent,reject_row,reject_reason,reject_message\n,b@x.org,::1,u,1,2,3\n",
        &format!(
            "{head},name,email,ip,user_agent,reject_row,reject_reason,reject_message\n1,missing_name,line 2: no name,,b@x.org,::1,u,1,2,3\n"
        ),
    );
    ends(
        "jsonl",
        "{\"name\": \"\", \"email\": \"b@x.org\", \"reject_row\": 9, \"reject_reason\": \"missing_name\", \"reject_message\": \"line 9: no name\", \"ip\": \"::1\", \"user_agent\": \"u\"}\n",
        "{\"name\":\"\",\"email\":\"b@x.org\",\"ip\":\"::1\",\"user_agent\":\"u\",\"reject_row\":1,\"reject_reason\":\"missing_name\",\"reject_message\":\"line 1: no name\"}\n",
    );
}
