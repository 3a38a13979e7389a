//! Refusals that come at any pace: some services and balancers refuse a call now and then whatever is sent.
//!
//! A limit refuses nothing at a pace below what it let through. So whoever is refused again and again at ever lower paces,
//! all below what was accepted meanwhile, is not too fast. From then on as many refusals as that are expected, and only
//! what is more says something of the pace.

use std::time::Duration;

/// What is known of them.
#[derive(Debug, Default)]
pub(super) struct Background {
    /// Refusals in a row of a pace that should have been borne.
    unexplained: Option<Unexplained>,
    /// How many of all calls are refused at any pace.
    share: Option<f64>,
    /// Refusals that are still to be expected of the calls up to now.
    due: f64,
    /// Calls since the last refusal.
    answers: u32,
}

#[derive(Debug)]
struct Unexplained {
    since: Duration,
    /// How often all had to pause.
    times: u32,
    refusals: u32,
    answers: u32,
}

/// What a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    /// There was too much.
    Pace,
    /// Nothing that we do: it was to be expected.
    Chance,
    /// Nothing that we do, and neither were those before.
    ChanceAllAlong,
}

/// Fewer can be a limit that falls in steps.
const ENOUGH: u32 = 4;
/// At a pace of so much of what was accepted meanwhile no limit refuses.
const BORNE: f64 = 0.8;
/// A service that refuses more than one in twenty whatever is sent is not left in peace by asking more.
const MOST: f64 = 0.05;
/// What is expected is twice what was seen: that was not much to count.
const MARGIN: f64 = 2.0;
/// Chance brings some close together …
const MOST_DUE: f64 = 5.0;
/// … also after one that was put down to the pace.
const DUE_AFTER_CUT: f64 = 2.0;
/// After so many times the calls that bring one refusal there are none any more: by chance once in 20,000 times.
const GONE: f64 = 10.0;

impl Background {
    /// How many of all calls are refused at any pace.
    pub(super) const fn share(&self) -> Option<f64> {
        self.share
    }

    /// A call that began at `began` was accepted.
    pub(super) fn answered(&mut self, began: Duration) {
        self.answers = self.answers.saturating_add(1);
        if let Some(unexplained) = &mut self.unexplained
            && began >= unexplained.since
        {
            unexplained.answers = unexplained.answers.saturating_add(1);
        }
        let Some(share) = self.share else { return };
        self.due = (self.due + share * MARGIN).min(MOST_DUE);
        if f64::from(self.answers) * share > GONE {
            self.share = None;
            self.due = 0.0;
        }
    }

    /// A call was refused that was out with one that is judged already, or that went first after a pause.
    pub(super) fn refused_as_well(&mut self) -> About {
        self.answers = 0;
        self.due -= 1.0;
        if let Some(unexplained) = &mut self.unexplained {
            unexplained.refusals = unexplained.refusals.saturating_add(1);
        }
        if self.share.is_some() && self.due >= 0.0 {
            About::Chance
        } else {
            About::Pace
        }
    }

    /// A call was refused at `pace` calls a second. `below`: that is less than where it was refused before.
    pub(super) fn refused(&mut self, now: Duration, pace: f64, below: bool) -> About {
        if self.refused_as_well() == About::Chance {
            return About::Chance;
        }
        self.due = self.share.map_or(0.0, |_| DUE_AFTER_CUT);
        if !below {
            self.unexplained = None;
            return About::Pace;
        }
        let Unexplained {
            since,
            times,
            refusals,
            answers,
        } = self.unexplained.get_or_insert(Unexplained {
            since: now,
            times: 0,
            refusals: 0,
            answers: 0,
        });
        *times = times.saturating_add(1);
        let answers = f64::from(*answers);
        let accepted = answers / now.saturating_sub(*since).as_secs_f64();
        let share = f64::from(*refusals) / answers;
        if *times <= ENOUGH || pace > accepted * BORNE || share > MOST {
            return About::Pace;
        }
        self.share = Some(share);
        self.due = MOST_DUE;
        self.unexplained = None;
        About::ChanceAllAlong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls at this pace for so many seconds, and then a refusal.
    fn refused(background: &mut Background, now: &mut Duration, pace: u32, seconds: u32) -> About {
        for _ in 0..seconds * pace {
            background.answered(*now);
        }
        *now += Duration::from_secs(seconds.into());
        background.refused(*now, pace.into(), true)
    }

    #[test]
    fn who_is_refused_at_ever_lower_paces_and_bore_more_refuses_at_any() {
        let (mut background, mut now) = (Background::default(), Duration::ZERO);
        for pace in [80, 60, 45, 35] {
            assert_eq!(refused(&mut background, &mut now, pace, 2), About::Pace);
        }
        assert_eq!(background.share(), None);
        let found = refused(&mut background, &mut now, 25, 4);
        assert_eq!(found, About::ChanceAllAlong);
        assert!(background.share().is_some_and(|share| share < 0.02));
        // As many are expected from then on, and more are not.
        for _ in 0..20 {
            let again = refused(&mut background, &mut now, 50, 2);
            assert_eq!(again, About::Chance);
        }
        let many = (0..10).find(|_| refused(&mut background, &mut now, 50, 0) == About::Pace);
        assert!(many.is_some());
        for _ in 0..2_000 {
            background.answered(now);
        }
        assert_eq!(background.share(), None, "there are none any more");
    }

    #[test]
    fn a_limit_that_fell_is_one_at_any_pace_above_it() {
        let (mut background, mut now) = (Background::default(), Duration::ZERO);
        for pace in [400_u32, 240, 144, 86, 52, 31, 19, 11, 7, 4] {
            // A second's pause lets three through.
            for _ in 0..3 {
                background.answered(now);
            }
            now += Duration::from_secs(1);
            let about = background.refused(now, pace.into(), true);
            assert_eq!(about, About::Pace, "{pace}");
        }
    }
}
