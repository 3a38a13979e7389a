//! Why calls wait, or go no faster: what a person looks at progress for.

use super::Snapshot;
use super::words::{down, limit, limit_in_flight, per_time, refused_at_any, whole_seconds};
use crate::telemetry::pace::{Pace, Pause, Search};

/// The reason first, then what else is known of it, the least important last. Nothing where nothing holds calls back.
/// `ceiling` is the number of calls that may be in flight in any case.
pub(super) fn reasons(now: &Snapshot, ceiling: usize) -> Vec<String> {
    if now.stopping {
        return vec!["stopping".to_owned()];
    }
    if let Some((left, pause)) = now.pause {
        return vec![paused(left, pause)];
    }
    if let Some(outage) = now.outage {
        return vec![down(outage, now.at)];
    }
    let Some(pace) = now.pace else {
        return Vec::new();
    };
    let mut reasons = match usize::try_from(now.in_flight) {
        // Of the two limits, the one that is used up is what calls wait for.
        Ok(in_flight) if in_flight >= pace.in_flight => calls_in_flight(pace, ceiling),
        _ => rate(pace),
    };
    reasons.extend(pace.refused_at_any.map(refused_at_any));
    reasons
}

/// Why no more calls are in flight.
fn calls_in_flight(pace: Pace, ceiling: usize) -> Vec<String> {
    if let Some(found) = pace.limit_in_flight {
        return vec![limit_in_flight(found)];
    }
    if pace.in_flight >= ceiling {
        return vec!["`--concurrency` allows no more in flight".to_owned()];
    }
    rate(pace)
}

/// Why calls do not go at a higher rate.
fn rate(pace: Pace) -> Vec<String> {
    let Some(now) = pace.rate.map(per_time) else {
        return Vec::new();
    };
    if pace.asked_for().is_some() {
        return vec![format!("{now}: the service's headers ask for it")];
    }
    if pace.at_ceiling {
        return vec![format!("{now}, the most that `--rate` allows")];
    }
    let found = pace.limit.map(limit);
    match (pace.search, found) {
        (Search::Holding, Some(found)) => vec![found, format!("now {now}")],
        (search, found) => {
            let mut reasons = vec![format!("{now}, {}", why(search))];
            reasons.extend(found);
            reasons
        }
    }
}

/// What the search for the pace does.
const fn why(search: Search) -> &'static str {
    match search {
        Search::Growing => "growing while nothing is refused",
        Search::ClosingIn => "closing in on the limit",
        Search::Checking => "slower, to see whether fewer calls are refused",
        Search::Holding => "just below the limit",
        Search::Looking => "looking whether more is allowed by now",
    }
}

/// Why everybody waits, and how much longer.
fn paused(left: std::time::Duration, pause: Pause) -> String {
    let asked = match pause.asked {
        Some(asked) => whole_seconds(asked),
        None => "fewer calls".to_owned(),
    };
    format!(
        "paused: service asks for {asked}, {} left",
        whole_seconds(left)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::pace::Hint;

    const PACE: Pace = Pace {
        rate: Some(48.0),
        in_flight: 16,
        search: Search::Holding,
        limit: Some(50.0),
        limit_in_flight: Some(16),
        headers: Hint::Silent,
        at_ceiling: false,
        refused_at_any: None,
    };

    fn said(pace: Pace, in_flight: u64) -> String {
        let now = Snapshot {
            pace: Some(pace),
            in_flight,
            ..Snapshot::default()
        };
        reasons(&now, 64).join("; ")
    }

    #[test]
    fn of_two_limits_the_one_that_binds_is_shown() {
        assert_eq!(said(PACE, 16), "limit found: 16 in flight");
        assert_eq!(said(PACE, 15), "limit found: about 50.0/s; now 48.0/s");
        let ceiling = Pace {
            in_flight: 64,
            limit_in_flight: None,
            at_ceiling: true,
            ..PACE
        };
        let all_out = "`--concurrency` allows no more in flight";
        assert_eq!(said(ceiling, 64), all_out);
        assert_eq!(said(ceiling, 9), "48.0/s, the most that `--rate` allows");
        let unlimited = Pace {
            rate: None,
            limit: None,
            ..ceiling
        };
        assert_eq!(said(unlimited, 64), all_out);
        assert_eq!(said(unlimited, 9), "");
    }

    #[test]
    fn the_reason_comes_first_and_what_is_known_of_it_after_that() {
        let growing = Pace {
            search: Search::Growing,
            limit: None,
            limit_in_flight: None,
            refused_at_any: Some(0.05),
            ..PACE
        };
        assert_eq!(
            said(growing, 3),
            "48.0/s, growing while nothing is refused; the service refuses about 1 call in 20 at any pace"
        );
        let asked = Pace {
            headers: Hint::Asks(48.0),
            ..PACE
        };
        assert_eq!(said(asked, 3), "48.0/s: the service's headers ask for it");
    }
}
