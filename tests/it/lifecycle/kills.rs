//! A run that is killed again and again at random moments still writes the bytes of an undisturbed run, and pays for little
//! twice.
//!
//! Each test prints its seed; `RESCORE_TEST_SEED` repeats it.

use std::cell::Cell;
use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::support::chance;
use crate::support::process::Place;
use crate::support::server::{Request, Server, good};
use crate::support::users;

const ROWS: usize = 600;
const CONCURRENCY: usize = 8;
const KILLS: usize = 24;
/// Rows that have no name until their file is fixed.
const NAMELESS: [usize; 4] = [1, 77, 300, 599];

/// Answers by the body, each after its own delay of a few milliseconds.
fn server() -> Server {
    Server::start(|request: &Request| {
        let hash = request.body.iter().fold(request.nth, |hash, byte| {
            hash.wrapping_mul(31).wrapping_add(usize::from(*byte))
        });
        good(request).after(Duration::from_micros(500 + (hash % 4_000) as u64))
    })
}

/// The user of each row: about every tenth row repeats an earlier user.
fn users(chance: &mut fastrand::Rng) -> Vec<usize> {
    let mut users: Vec<usize> = Vec::new();
    for row in 1..=ROWS {
        let again = row > 1 && chance.u8(..10) == 0;
        let user = if again {
            users[chance.usize(..users.len())]
        } else {
            row
        };
        users.push(user);
    }
    users
}

fn csv(users: &[usize], nameless: &[usize]) -> String {
    let row = |(id, user): (usize, &usize)| {
        let name = if nameless.contains(&id) {
            String::new()
        } else {
            format!("User {user}")
        };
        format!("{id},{name},user{user}@example.com,192.0.2.1,curl/8\n")
    };
    let rows: String = (1..).zip(users).map(row).collect();
    format!("id,name,email,ip,user_agent\n{rows}")
}

fn unique(users: &[usize], nameless: &[usize]) -> usize {
    let asking = (1..)
        .zip(users)
        .filter(|(id, _)| !nameless.contains(id))
        .map(|(_, user)| *user);
    asking.collect::<HashSet<_>>().len()
}

/// One command that is killed again and again.
struct Course<'a> {
    place: &'a Place,
    server: &'a Server,
    input: &'static str,
    output: &'static str,
    unique: usize,
    /// What the output must be once it has its final name.
    check: &'a dyn Fn(&[u8]),
}

impl Course<'_> {
    /// Kills the command this many times, or until it is complete. Returns how many times it was killed.
    fn kill(&self, kills: usize, chance: &mut fastrand::Rng) -> usize {
        let mut killed = 0;
        // A run that is killed after its last word is finished, and goes through its file again only when told to.
        let mut retries = false;
        for nth in 1.. {
            let began = Instant::now();
            let calls = self.server.calls();
            let time = Duration::from_micros(chance.u64(..15_000));
            let more = chance.usize(..30);
            let all_asked = Cell::new(None);
            let ready = || match nth % 5 {
                // While it starts, continues from the ledger, or ends.
                0 => began.elapsed() >= time,
                // In the middle, while there are rows to ask.
                _ if 3 * killed < 2 * kills => self.server.calls() >= calls + more,
                // At the end.
                _ if self.server.calls() >= self.unique => {
                    let since = all_asked.get().unwrap_or_else(Instant::now);
                    all_asked.set(Some(since));
                    since.elapsed() >= time
                }
                _ => false,
            };
            let mut program = self
                .place
                .run(self.server, [self.input, "-o", self.output, "-c", "8"]);
            if retries {
                program = program.arg("--retry-failed");
            }
            let done = program.start().kill_when(ready);
            if done.code() == Some(2) && !retries {
                done.says("already exists");
                if !done.stderr.contains("--retry-failed") {
                    break;
                }
                retries = true;
                continue;
            }
            done.silent_about("panicked").silent_about("error");
            let names = self.place.names();
            let whole = names.iter().any(|name| name == self.output);
            if whole {
                (self.check)(&self.place.read(self.output));
            }
            match done.code() {
                None => killed += 1,
                code => done.check(whole && matches!(code, Some(0 | 1)), "killed or complete"),
            }
            if killed == kills || done.code() == Some(0) {
                break;
            }
        }
        killed
    }
}

/// The calls are at least the different requests, and for each kill at most twice the calls in flight more.
fn pays_little_twice(kills: usize, unique: usize, calls: usize) {
    let most = unique + kills * 2 * CONCURRENCY;
    let said = format!("{kills} kills, {unique} unique requests, {calls} calls of {most}");
    assert!((unique..=most).contains(&calls), "{said}");
}

#[test]
fn a_run_that_is_killed_again_and_again_gives_the_bytes_of_one_that_was_not() {
    let mut chance = chance();
    let users = users(&mut chance);
    let (csv, fixed) = (csv(&users, &NAMELESS), csv(&users, &[]));
    let undisturbed = {
        let (place, server) = (Place::with("users.csv", &csv), server());
        place.score(&server, "-c 8").exits(1);
        assert_eq!(server.calls(), unique(&users, &NAMELESS));
        (place.text("scored.csv"), place.text("scored.rejects.csv"))
    };
    assert_eq!(
        undisturbed.0,
        users::scored_without(&csv, str::is_empty),
        "each row's verdict is its own"
    );

    let (place, server) = (Place::with("users.csv", &csv), server());
    let different = unique(&users, &NAMELESS);
    let course = Course {
        place: &place,
        server: &server,
        input: "users.csv",
        output: "scored.csv",
        unique: different,
        check: &|scored| assert!(scored == undisturbed.0.as_bytes()),
    };
    assert_eq!(course.kill(KILLS, &mut chance), KILLS);
    let done = place.score(&server, "-c 8");
    if done.code() == Some(2) {
        done.says("already exists");
    } else {
        done.exits(1);
    }
    let calls = server.calls();
    pays_little_twice(KILLS, different, calls);
    assert_eq!(place.text("scored.csv"), undisturbed.0);
    assert_eq!(place.text("scored.rejects.csv"), undisturbed.1);

    // Only the fixed rows are asked, and they go to their places.
    place.write("users.csv", &fixed);
    let retry = "-c 8 --retry-failed";
    place.score(&server, retry).exits(0);
    let new = unique(&users, &[]) - different;
    assert_eq!(server.calls(), calls + new);
    assert_eq!(place.text("scored.csv"), users::scored(&fixed));
    assert_eq!(place.names(), ["rescore.ledger", "scored.csv", "users.csv"]);
}

#[test]
fn kills_change_no_byte_of_objects_or_of_a_compressed_output() {
    let mut chance = chance();
    let users = users(&mut chance);
    let objects = users
        .iter()
        .map(|user| users::object(&format!("User {user}")));
    let jsonl: String = objects.clone().map(|object| object + "\n").collect();
    let scored: String = (users.iter().zip(objects))
        .map(|(user, object)| {
            let members = users::Verdict::of(&format!("User {user}")).members();
            format!("{}{members}}}\n", object.strip_suffix('}').unwrap())
        })
        .collect();
    let csv = csv(&users, &[]);
    let packed: &dyn Fn(&[u8]) = &|bytes: &[u8]| {
        let unpacked = std::io::read_to_string(flate2::read::GzDecoder::new(bytes));
        assert!(unpacked.unwrap() == users::scored(&csv));
    };
    let plain: &dyn Fn(&[u8]) = &|bytes: &[u8]| assert!(bytes == scored.as_bytes());
    for (input, content, output, check) in [
        ("users.jsonl", &jsonl, "scored.jsonl", plain),
        ("users.csv", &csv, "scored.csv.gz", packed),
    ] {
        let (place, server) = (Place::with(input, content), server());
        let course = Course {
            place: &place,
            server: &server,
            input,
            output,
            unique: unique(&users, &[]),
            check,
        };
        let kills = course.kill(12, &mut chance);
        if kills == 12 {
            let last = place.run(&server, [input, "-o", output, "-c", "8"]).done();
            // A run that was killed just after it was complete has nothing to continue.
            last.exits_with_one_of(&[0, 2]);
        }
        pays_little_twice(kills, course.unique, server.calls());
        check(&place.read(output));
        assert_eq!(place.names(), ["rescore.ledger", output, input]);
    }
}
