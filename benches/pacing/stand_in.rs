//! The stand-in with a limit, and what the next run believes of it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU32;
use std::time::Duration;

use rescore::internals::{RateLimit, Sandbox, SandboxSettings};
use serde_json::Value;

use crate::limits::ROWS;
use crate::program::Program;
use crate::table::{Line, Refusals};

const RATE: f64 = 100.0;
/// Seconds into the first run between which it is measured.
const FOUND: u32 = 20;
const END: u32 = 40;
/// Seconds of the second run.
const NEXT: u32 = 15;

pub(crate) fn measure(program: &Program) {
    // 80 ms, 40 more or less.
    let stand_in = Sandbox::start(SandboxSettings {
        latency: Duration::from_millis(40),
        jitter: Duration::from_millis(80),
        rate_limit: Some(RateLimit {
            per_second: RATE,
            burst: NonZeroU32::MIN,
            retry_after: None,
        }),
        ..SandboxSettings::default()
    })
    .unwrap();
    let (address, place) = (stand_in.address(), program.place());
    let url = format!("http://{address}");
    let ledger = place.path().join("ledger");
    // All rows of the next run are sent again.
    let options = ["--ledger", ledger.to_str().unwrap(), "--fresh"];
    let input = program.users(ROWS);

    let mut run = program.start(&input, &url, &options);
    run.wait(Duration::from_secs(FOUND.into()));
    let before = Bill::of(address);
    let done = run.done(Duration::from_secs(END.into()));
    let after = Bill::of(address);
    line(
        "the stand-in, 100/s, 80 ms ± 40 ms",
        f64::from(after.since(before).billed) / f64::from(END - FOUND),
        after,
        format!("{}; {}", done.ending(), program.kept_limit(&ledger)),
    );

    let done = program
        .start(&input, &url, &options)
        .done(Duration::from_secs(NEXT.into()));
    let next = Bill::of(address).since(after);
    line(
        "… the next run with its ledger, first 15 s",
        f64::from(next.billed) / f64::from(NEXT),
        next,
        format!("{}; {}", done.ending(), program.kept_limit(&ledger)),
    );
    let _ = stand_in.stop();
}

fn line(service: &str, rate: f64, bill: Bill, more: String) {
    Line {
        service,
        rows: ROWS,
        seen: format!("{rate:.1}/s"),
        share: Some(rate / RATE),
        refusals: bill.refusals(),
        aim: "≥ 0.6",
        more,
    }
    .print();
}

/// What it has billed and refused so far.
#[derive(Clone, Copy)]
pub(crate) struct Bill {
    pub(crate) billed: u32,
    throttled: u32,
}

impl Bill {
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            billed: self.billed - earlier.billed,
            throttled: self.throttled - earlier.throttled,
        }
    }

    pub(crate) const fn refusals(self) -> Refusals {
        Refusals {
            refused: self.throttled,
            calls: self.billed + self.throttled,
        }
    }

    pub(crate) fn of(address: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        let request = "GET /billed HTTP/1.1\r\nhost: stand-in\r\nconnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let bill: Value = serde_json::from_str(body).unwrap();
        let count = |name: &str| u32::try_from(bill[name].as_u64().unwrap()).unwrap();
        Self {
            billed: count("billed"),
            throttled: count("throttled"),
        }
    }
}
