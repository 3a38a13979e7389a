//! Why calls wait, or are not faster: what people most want to know about a run.

use super::numbers::per_time;
use super::snapshot::Snapshot;
use super::words::{REFUSED_AT_ANY, down, limit, limit_in_flight, paused, taken};
use crate::telemetry::pace::{Pace, Search};

/// The reason first, then more about it, the least important last. Empty if nothing holds calls back. `ceiling` is the
/// highest number of calls in flight that the run allows.
pub(super) fn wait_reasons(now: &Snapshot, ceiling: usize) -> Vec<String> {
    if now.stopping.is_some() {
        return vec!["stopping".to_owned()];
    }
    if let Some(why) = &now.ledger_wait {
        return vec![format!("waiting for the ledger's server: {why}")];
    }
    if let Some((left, pause)) = now.pause {
        return vec![paused(left, pause)];
    }
    if let Some(outage) = now.outage {
        return vec![down(outage, now.at)];
    }
    if now.taken > 0 && now.in_flight == 0 {
        return vec![taken(now.taken)];
    }
    let Some(pace) = now.pace else {
        return Vec::new();
    };
    let mut reasons = match usize::try_from(now.in_flight) {
        // Calls wait for the one of the two limits that is used up.
        Ok(in_flight) if in_flight >= pace.in_flight => calls_in_flight(pace, ceiling),
        _ => rate(pace),
    };
    reasons.extend(pace.refused_at_any.map(|_| REFUSED_AT_ANY.to_owned()));
    reasons
}

/// Why no more calls are in flight.
fn calls_in_flight(pace: Pace, ceiling: usize) -> Vec<String> {
    if let Some(found) = pace.limit_in_flight {
        return vec![limit_in_flight(found)];
    }
    if pace.in_flight >= ceiling {
        return vec!["`--concurrency` allows no more calls at a time".to_owned()];
    }
    rate(pace)
}

/// Why the rate is not higher.
fn rate(pace: Pace) -> Vec<String> {
    let Some(rate) = pace.rate else {
        return Vec::new();
    };
    let now = format!("pace {}", per_time(rate));
    if pace.asked_for().is_some() {
        return vec![format!("{now}, as the service's headers ask")];
    }
    if pace.at_ceiling {
        return vec![format!("{now}, the most that `--rate` allows")];
    }
    let found = pace.limit.map(limit);
    match (pace.search, found) {
        (Search::Holding, Some(found)) => vec![found, now],
        (search, found) => {
            let mut reasons = vec![format!("{now}, {}", why(search))];
            reasons.extend(found);
            reasons
        }
    }
}

/// Why the pace changes, or does not.
const fn why(search: Search) -> &'static str {
    match search {
        Search::Growing => "growing until calls are throttled",
        Search::ClosingIn => "closing in on the limit",
        Search::Holding => "just below the limit",
        Search::Looking => "trying whether more is accepted by now",
    }
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

    fn words(pace: Pace, in_flight: u64) -> String {
        let now = Snapshot {
            pace: Some(pace),
            in_flight,
            ..Snapshot::default()
        };
        wait_reasons(&now, 64).join("; ")
    }

    #[test]
    fn of_two_limits_the_one_that_is_used_up_is_shown() {
        assert_eq!(words(PACE, 16), "limit found: 16 calls at a time");
        assert_eq!(words(PACE, 15), "limit found: about 50.0/s; pace 48.0/s");
        let ceiling = Pace {
            in_flight: 64,
            limit_in_flight: None,
            at_ceiling: true,
            ..PACE
        };
        let all_out = "`--concurrency` allows no more calls at a time";
        assert_eq!(words(ceiling, 64), all_out);
        assert_eq!(
            words(ceiling, 9),
            "pace 48.0/s, the most that `--rate` allows"
        );
        let unlimited = Pace {
            rate: None,
            limit: None,
            ..ceiling
        };
        assert_eq!(words(unlimited, 64), all_out);
        assert_eq!(words(unlimited, 9), "");
    }

    #[test]
    fn rows_that_another_run_asks_about_are_waited_for_when_nothing_else_is_left() {
        let waiting = |in_flight| Snapshot {
            pace: Some(PACE),
            taken: 12,
            in_flight,
            ..Snapshot::default()
        };
        let words = |in_flight| wait_reasons(&waiting(in_flight), 64).join("; ");
        assert_eq!(
            words(0),
            "waiting for 12 rows that another run is asking about"
        );
        assert_eq!(words(3), "limit found: about 50.0/s; pace 48.0/s");
    }

    #[test]
    fn the_reason_comes_first_and_more_about_it_after_that() {
        let growing = Pace {
            search: Search::Growing,
            limit: None,
            limit_in_flight: None,
            refused_at_any: Some(0.05),
            ..PACE
        };
        assert_eq!(
            words(growing, 3),
            "pace 48.0/s, growing until calls are throttled; the service throttles some calls at any pace"
        );
        let asked = Pace {
            headers: Hint::Asks(48.0),
            ..PACE
        };
        assert_eq!(words(asked, 3), "pace 48.0/s, as the service's headers ask");
    }
}
