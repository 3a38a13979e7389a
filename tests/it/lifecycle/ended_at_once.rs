//! A signal immediately ends a command that makes no calls, whatever it waits for, and no file is left.

use std::io::{self, Write};

use crate::support::process::{Place, Running};

/// The commands, each with files that it would write.
const COMMANDS: [&[&str]; 4] = [
    &[
        "check",
        "INPUT",
        "--set",
        "email=a@example.com",
        "--set",
        "ip=192.0.2.1",
        "--set",
        "user_agent=x",
        "--keep-going",
    ],
    &[
        "decide",
        "INPUT",
        "-o",
        "new.csv",
        "--changes",
        "changes.csv",
    ],
    &["decide", "INPUT", "--what-if"],
    &["report", "INPUT", "-o", "new.html"],
];

const SCORED: &str = "transaction_id,risk_score,decision,name\nt,1,approve,\n";

fn args(command: &[&'static str], input: &'static str) -> Vec<&'static str> {
    let place = |arg: &&'static str| if *arg == "INPUT" { input } else { arg };
    command.iter().map(place).collect()
}

/// Waits until the program handles this signal: its bit in the mask of caught ones.
fn wait_until_it_listens(running: &Running<'_>, number: u32) {
    running.wait_for_status("SigCgt:", |mask| {
        u64::from_str_radix(mask, 16).is_ok_and(|mask| mask & 1 << (number - 1) != 0)
    });
}

#[test]
#[cfg(target_os = "linux")]
fn a_signal_ends_a_command_that_waits_for_a_silent_pipe() {
    for command in COMMANDS {
        for (first, signal, number, code, word) in [
            ("", "INT", 2, 130, "interrupted"),
            (SCORED, "TERM", 15, 143, "terminated"),
        ] {
            let place = Place::new();
            let (reader, mut producer) = io::pipe().unwrap();
            let running = place.rescore(args(command, "-")).stdin_from(reader).start();
            wait_until_it_listens(&running, number);
            producer.write_all(first.as_bytes()).unwrap();
            running.signal(signal);
            let done = running.exits(code);
            done.says(word);
            done.check(done.stdout.is_empty(), "no result");
            assert_eq!(place.names(), [""; 0], "{command:?}");
            drop(producer);
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_signal_ends_a_command_in_a_large_file() {
    // Far more than is read before the signal. None of the rows can be sent.
    let rows = "t,1,approve,\n".repeat(500_000);
    let place = Place::new();
    place.write("scored.csv", format!("{SCORED}{rows}"));
    for command in COMMANDS {
        let running = place.rescore(args(command, "scored.csv")).start();
        match command.iter().find(|arg| **arg == "new.csv") {
            Some(name) => {
                running.wait_for_file(&format!("{name}.partial"), |rows| !rows.is_empty());
            }
            None => wait_until_it_listens(&running, 2),
        }
        running.signal("INT");
        let done = running.exits(130);
        done.says("interrupted");
        done.check(done.stdout.is_empty(), "no result");
        assert_eq!(place.names(), ["scored.csv"], "{command:?}");
    }
}
