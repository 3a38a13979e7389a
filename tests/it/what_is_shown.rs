//! What people see of a run: a bar that fits its terminal.

use std::fs::File;
use std::io::Read;
use std::thread::{self, JoinHandle};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::process::Place;
use crate::server::{Server, answer, good};
use crate::users;

/// A terminal with so many columns: its other side, and what the program writes to it once that has ended.
fn terminal(columns: u16) -> (File, JoinHandle<String>) {
    let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&main).unwrap();
    unlockpt(&main).unwrap();
    let name = ptsname(&main, Vec::new()).unwrap().into_string().unwrap();
    let size = Winsize {
        ws_row: 20,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&main, size).unwrap();
    let program_side = File::options().read(true).write(true).open(name).unwrap();
    let written = thread::spawn(move || {
        let (mut main, mut block, mut all) = (File::from(main), [0; 4096], Vec::new());
        // When nobody has it open any more, reading it fails.
        while let Ok(read @ 1..) = main.read(&mut block) {
            all.extend_from_slice(&block[..read]);
        }
        String::from_utf8_lossy(&all).into_owned()
    });
    (program_side, written)
}

#[test]
fn a_bar_fits_its_terminal_and_is_gone_before_anything_else_is_said() {
    for columns in [80, 60, 40] {
        let server = Server::start(|request| match request.nth {
            20 => answer(429, &[("retry-after", "1")], ""),
            _ => good(request),
        });
        let place = Place::with("users.csv", users::csv(40));
        let (side, written) = terminal(columns);
        let args = ["users.csv", "-o", "scored.csv", "-c", "1"];
        let done = place.run(&server, args).stderr(side).done();
        done.exits(0);
        let written = written.join().unwrap();
        let told = format!("{columns} columns: {written:?}");

        // A bar begins at the beginning of a line and ends there: wherever a resized terminal puts its lines, the next one
        // is drawn over all of it.
        let frames: Vec<_> = written.split("\u{1b}[J\r\u{1b}[1A").collect();
        let (last, frames) = frames.split_last().unwrap();
        let pauses = frames.iter().filter(|frame| frame.contains("paused: "));
        assert!(pauses.count() >= 5, "{told}");
        for frame in &frames[1..] {
            assert!(frame.starts_with('\r'), "{told}");
            let lines: Vec<_> = frame[1..].split("\u{1b}[K\r\n").collect();
            assert_eq!(lines.len(), 2, "{told}");
            assert!(
                lines[0].contains(" % · ") && lines[0].contains(" rows"),
                "{told}"
            );
            for line in lines {
                assert!(line.chars().count() < columns.into(), "{told}");
            }
        }
        assert!(last.starts_with("\r\u{1b}[Jrescore: 40 rows in "), "{told}");
    }
}
