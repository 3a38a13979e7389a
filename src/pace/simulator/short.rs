//! Where the controller falls short: the cases have the aims, and this is what it reaches.
//!
//! The everyday tests hold the controller to this, so that it does not get worse; the table lists each aim that is missed.

use super::case::Case;

/// What is reached where an aim is missed.
struct Reached {
    /// The start of the case's name.
    name: &'static str,
    share: f64,
    refused: u32,
    refused_share: f64,
    each_minute: f64,
    at_first: f64,
    latency: f64,
}

const AS_AIMED: Reached = Reached {
    name: "",
    share: 1.0,
    refused: 0,
    refused_share: 0.0,
    each_minute: 1.0,
    at_first: 1.0,
    latency: 0.0,
};

const SHORT: [Reached; 34] = [
    // A few more than thirty: that many were in flight at the first refusal.
    refused("bucket of 50, 40/s", 36),
    refused("503 for 3 min", 36),
    refused("everything hangs for 1 min", 36),
    refused("noisy host, bucket of 50", 55),
    // Most of them at the start, when as many again are on the wire.
    refused("bucket of 50, 40/s, no hint, 150 ms away", 110),
    refused("bucket of 50, 40/s, Retry-After, 150 ms away", 110),
    // At 2/s most calls are refused, but it takes many until it is certain that this is not chance.
    refused("bucket of 2, 0.7/s", 320),
    // At so low a rate each step takes long.
    refused("bucket of 10, 3/s", 36),
    Reached {
        share: 0.8,
        ..refused("6 in 60 s, no hint", 30)
    },
    Reached {
        share: 0.9,
        ..AS_AIMED.of("400 in 10 s")
    },
    // Five hundred are in flight when the first window is used up.
    refused("3,000 a minute", 400),
    Reached {
        at_first: 0.9,
        ..refused("bucket of 5, 60/s", 20)
    },
    // Calls on the wire are in flight but not counted, so a few above the limit are refused now and then.
    refused("5 in flight, 10 ms, 50 ms away", 45),
    refused("20 in flight, 80 ms, 30 ms away", 36),
    refused("bare 503: 20 in flight", 45),
    // Its limit is found only after minutes, as each call takes 8 s.
    Reached {
        share: 0.85,
        ..AS_AIMED.of("bare 503: 64 in flight")
    },
    // Each is refused because of the other, which looks random.
    Reached {
        share: 0.85,
        ..refused("two programs", 700)
    },
    refused("40/s falls to 20/s", 40),
    refused("40/s falls to 2/s", 50),
    Reached {
        each_minute: 0.2,
        ..refused("400/s falls to 1/s", 500)
    },
    // The limit changes every five minutes, which is often for looks past it.
    Reached {
        share: 0.6,
        ..AS_AIMED.of("40, 60, 30, 80, 20, 50/s")
    },
    Reached {
        share: 0.6,
        ..refused("bucket of 50, 40/s, always asks for 60 s", 40)
    },
    // The first answers that a median needs have already queued.
    Reached {
        latency: 5.0,
        ..AS_AIMED.of("queues what is above 40/s")
    },
    Reached {
        latency: 4.0,
        ..AS_AIMED.of("20 workers")
    },
    Reached {
        latency: 5.0,
        ..AS_AIMED.of("100 workers")
    },
    // Refusals become rarer so slowly with the pace that they are hard to tell from random ones.
    Reached {
        refused_share: 0.08,
        ..AS_AIMED.of("no two closer than 1/20 s, jitter of 3")
    },
    // Refused together, they are put down to the pace at first.
    Reached {
        share: 0.65,
        each_minute: 0.1,
        ..refused("five rows always refused, bucket", 420)
    },
    // Sometimes it takes two minutes until it is certain that refusals are random: rare ones take long to show.
    Reached {
        share: 0.05,
        each_minute: 0.02,
        ..AS_AIMED.of("0.1 % refused")
    },
    // A limit that was too high for a while looks random until nothing is refused for long.
    Reached {
        refused_share: 0.06,
        ..AS_AIMED.of("one call in 100 is refused, bucket")
    },
    Reached {
        refused_share: 0.03,
        ..AS_AIMED.of("one call in 1,000 is refused, bucket")
    },
    Reached {
        each_minute: 0.0,
        ..AS_AIMED.of("1 % refused")
    },
    // The least share and the most refusals of 48 runs.
    Reached {
        share: 0.85,
        ..refused("600 in any 20 s", 120)
    },
    Reached {
        share: 0.5,
        refused_share: 0.03,
        ..AS_AIMED.of("four servers")
    },
    // Once in 48 runs thousands are refused.
    Reached {
        share: 0.55,
        ..refused("sheds load", 4_000)
    },
];

const fn refused(name: &'static str, refused: u32) -> Reached {
    Reached {
        refused,
        ..AS_AIMED.of(name)
    }
}

impl Reached {
    const fn of(self, name: &'static str) -> Self {
        Self { name, ..self }
    }
}

/// The case with what is reached in place of the aims.
pub(super) fn as_reached(mut case: Case) -> Case {
    for reached in SHORT
        .iter()
        .filter(|short| case.name.starts_with(short.name))
    {
        case.share = case.share.min(reached.share);
        case.refused = case.refused.max(reached.refused);
        case.refused_share = case.refused_share.max(reached.refused_share);
        case.each_minute = case.each_minute.min(reached.each_minute);
        case.at_first = case.at_first.min(reached.at_first);
        case.latency = case.latency.max(reached.latency);
    }
    case
}
