//! Standard error that nobody reads, as with a paused pager, Ctrl-S or a log collector that hangs: it delays neither the
//! run nor its end.

use std::fs::File;
use std::io::{self, Write};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::process::Place;
use crate::support::server::{Server, good, status};
use crate::support::users;

/// A full standard error, and what keeps it full.
fn full(mut stderr: impl Write + Send + 'static) {
    // It writes until the pipe is full and blocks there; it ends with the other end.
    thread::spawn(move || while stderr.write_all(&[b'.'; 4096]).is_ok() {});
}

/// A pipe that is full and never read.
fn full_pipe() -> (io::PipeReader, Stdio) {
    let (reader, writer) = io::pipe().unwrap();
    full(writer.try_clone().unwrap());
    (reader, writer.into())
}

/// A terminal that is stopped. The bar is drawn there.
fn stopped_terminal() -> (File, Stdio) {
    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&main).unwrap();
    unlockpt(&main).unwrap();
    let name = ptsname(&main, Vec::new()).unwrap();
    let name = name.into_string().unwrap();
    let terminal = File::options().read(true).write(true).open(name).unwrap();
    full(terminal.try_clone().unwrap());
    (File::from(main), terminal.into())
}

/// A run with three answers and four calls in flight is stopped; the same command continues.
fn ends_in_order(signal: &str, code: i32, timeout: &str, stderr: Stdio) {
    let csv = users::csv(9);
    let (server, release) = Server::holding(3);
    let place = Place::with("users.csv", &csv);
    let args = "users.csv -o scored.csv -c 4 --timeout";
    let run = place.run(&server, args).arg(timeout);
    let running = run.env("TERM", "xterm").stderr(stderr).start();
    server.wait_for_calls(7);
    running.signal(signal);
    let done = running.exits(code);
    done.check(done.took < Duration::from_secs(20), "within the drain");
    assert_eq!(
        place.text("scored.csv.partial"),
        users::scored(&users::csv(3))
    );
    drop(release);
    place
        .score(&server, "")
        .exits(0)
        .says("3 rows already paid for, taken from the ledger");
    assert_eq!(server.calls(), 7 + 6);
    assert_eq!(place.text("scored.csv"), users::scored(&csv));
}

#[test]
fn a_signal_ends_a_run_in_order_while_nobody_reads_what_it_says() {
    let (_pipe, stderr) = full_pipe();
    ends_in_order("TERM", 143, "1s", stderr);
    let (_terminal, stderr) = stopped_terminal();
    // Long enough for the bar to be drawn, once the lines before it are no longer waited for.
    ends_in_order("INT", 130, "3s", stderr);
}

#[test]
fn a_second_signal_ends_a_run_immediately_while_nobody_reads_what_it_says() {
    let (pipe, terminal) = (full_pipe(), stopped_terminal());
    for stderr in [pipe.1, terminal.1] {
        let (server, _release) = Server::holding(3);
        let place = Place::with("users.csv", users::csv(9));
        let running = place.scoring(&server).args("-c 4").stderr(stderr).start();
        server.wait_for_calls(7);
        running.signal("INT");
        let done = running.signal_until_it_ends("TERM");
        done.exits_with_one_of(&[130, 143]);
        done.check(done.took < Duration::from_secs(20), "immediately");
    }
}

#[test]
fn a_run_ends_as_usual_while_nobody_reads_what_it_says() {
    let csv = users::csv(500);
    for (refused_from, code) in [(usize::MAX, 0), (100, 4)] {
        let server = Server::start(move |request| {
            if request.nth >= refused_from {
                return status(401);
            }
            good(request)
        });
        let place = Place::with("users.csv", &csv);
        let (_pipe, stderr) = full_pipe();
        let args = "users.csv -o scored.csv";
        place.run(&server, args).stderr(stderr).exits(code);
        if code == 0 {
            assert_eq!(place.text("scored.csv"), users::scored(&csv));
        }
    }
}
