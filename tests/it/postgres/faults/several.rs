//! Several runs over the same users on one ledger, and their bill.

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use crate::postgres::run;
use crate::support::postgres::PASSWORD;
use crate::support::process::{Place, Running};
use crate::support::server::{Request, Server, good};
use crate::support::users;

/// Calls in flight of each run.
pub(super) const IN_FLIGHT: usize = 8;

/// What a run says first when its ledger's server is away.
pub(super) const NOTICED: &str = "warning: the ledger's server ";

/// Several runs over the same users.
pub(super) struct Several<'a> {
    place: &'a Place,
    server: &'a Server,
    users: usize,
    began: Instant,
    runs: Vec<Running<'a>>,
}

/// What they have paid.
pub(super) struct Bill {
    users: usize,
    pub(super) paid: usize,
    /// Rows of which the summaries say that they may have been billed twice.
    pub(super) counted: usize,
    took: Duration,
}

/// A service that answers after some time.
pub(super) fn slow(milliseconds: u64) -> Server {
    let wait = Duration::from_millis(milliseconds);
    Server::start(move |request: &Request| good(request).after(wait))
}

impl<'a> Several<'a> {
    /// Starts so many runs over so many users.
    pub(super) fn start(
        place: &'a Place,
        server: &'a Server,
        (runs, users): (usize, usize),
        url: &str,
        options: &[&str],
    ) -> Self {
        place.write("users.csv", users::csv(users));
        let start = |number: usize| {
            let summary = format!("{number}.json");
            let run = run(place, server, url, &format!("{number}.csv"));
            let run = run.args(["--summary", &summary]).args(options);
            run.env("PGPASSWORD", PASSWORD).start()
        };
        Self {
            place,
            server,
            users,
            began: Instant::now(),
            runs: (0..runs).map(start).collect(),
        }
    }

    /// The runs.
    pub(super) fn runs(&self) -> &[Running<'a>] {
        &self.runs
    }

    /// Waits for the end of all, which takes no longer than this: each must have every verdict, and nothing else is left.
    pub(super) fn done_within(mut self, longest: Duration) -> Bill {
        let has_ended = |runs: &mut [Running<'_>]| runs.iter_mut().all(Running::has_ended);
        while !has_ended(&mut self.runs) && self.began.elapsed() < longest {
            thread::sleep(Duration::from_millis(20));
        }
        let scored = users::scored(&users::csv(self.users));
        let (mut counted, mut names) = (0, vec!["secret".to_owned(), "users.csv".to_owned()]);
        for (number, run) in self.runs.into_iter().enumerate() {
            let done = run.done();
            done.exits(0);
            let (output, summary) = (format!("{number}.csv"), format!("{number}.json"));
            let is_whole = self.place.text(&output) == scored;
            done.check(is_whole, "every row has its verdict");
            let summary_is = self.place.json(&summary);
            let twice = summary_is["calls"]["maybe_billed_twice"].as_u64().unwrap();
            counted += usize::try_from(twice).unwrap();
            names.extend([output, summary]);
        }
        names.sort();
        assert_eq!(self.place.names(), names, "nothing is left behind");
        Bill {
            users: self.users,
            paid: self.server.calls(),
            counted,
            took: self.began.elapsed(),
        }
    }

    /// As [`Self::done_within`] a minute.
    pub(super) fn done(self) -> Bill {
        self.done_within(Duration::from_secs(60))
    }
}

impl Bill {
    /// Everybody was paid for once, and nothing is said to be in doubt.
    #[track_caller]
    pub(super) fn is_exact(&self, situation: &str) {
        println!("{situation} | {self}");
        assert_eq!((self.paid, self.counted), (self.users, 0), "{self}");
    }

    /// So many were paid for twice at most, and the summaries have counted them.
    #[track_caller]
    pub(super) fn is_counted(&self, situation: &str, most: usize) {
        println!("{situation} | {self} | at most {}", self.users + most);
        let twice = self.paid.checked_sub(self.users).unwrap();
        assert!(twice <= most && twice <= self.counted, "{self}");
    }
}

impl fmt::Display for Bill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            users,
            paid,
            counted,
            took,
        } = self;
        let seconds = took.as_secs_f64();
        write!(
            f,
            "{users} users | {paid} paid | {counted} perhaps twice | {seconds:.1} s"
        )
    }
}
