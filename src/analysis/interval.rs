//! How sure a share is: intervals for a share that was counted in some of the rows only. Nothing here knows what is counted.

/// The number of standard deviations within which 95% of a normal distribution lie.
const SURE_95: f64 = 1.959_963_985;
/// The number of standard deviations beyond which a difference is no chance. Up to 20 values are compared by 3 decisions; so
/// that chance alone marks a share in one table out of twenty at most, each of these 60 may be marked by a chance of
/// 5% / 60 (Bonferroni).
const MARKED: f64 = 3.34;
/// With fewer expected rows of a kind, the normal distribution says nothing (Cochran's rule).
const LEAST_EXPECTED: f64 = 5.0;

/// The interval in which a share lies, between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    /// Its lower end.
    pub(crate) low: f64,
    /// Its upper end.
    pub(crate) high: f64,
}

impl Interval {
    /// Nothing is known.
    const ANY: Self = Self {
        low: 0.0,
        high: 1.0,
    };
}

/// The Wilson score interval at 95%, for one look at a share that was found in this many independent observations.
///
/// Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927). In Newcombe, Two-sided
/// confidence intervals for the single proportion, Statistics in Medicine 17 (1998), it is method 3.
pub(crate) fn wilson(share: f64, observations: f64) -> Interval {
    if observations <= 0.0 {
        return Interval::ANY;
    }
    let z2 = SURE_95 * SURE_95 / observations;
    let centre = share + z2 / 2.0;
    let half = (z2 * (share * (1.0 - share) + z2 / 4.0)).sqrt();
    // Of no observations both ends are no number, for which `max` and `min` take the bounds.
    Interval {
        low: ((centre - half) / (1.0 + z2)).max(0.0),
        high: ((centre + half) / (1.0 + z2)).min(1.0),
    }
}

/// How many rows more of a kind a group has than the share of all others would give, or fewer; `None` if that may be chance.
/// Both are numbers of rows of the kind, and of all rows. It is the z test of two proportions.
pub(crate) fn beyond_chance(group: (u64, u64), others: (u64, u64)) -> Option<f64> {
    let [part, rows, other_part, other_rows] =
        [group.0, group.1, others.0, others.1].map(|number| number as f64);
    let share = (part + other_part) / (rows + other_rows);
    let difference = part / rows - other_part / other_rows;
    let error = (share * (1.0 - share) * (1.0 / rows + 1.0 / other_rows)).sqrt();
    let least_expected = rows.min(other_rows) * share.min(1.0 - share);
    let is_sure = least_expected >= LEAST_EXPECTED && difference.abs() > MARKED * error;
    is_sure.then_some(difference * rows)
}

/// The most by which the likelihood of what was seen may exceed that under a share that is not yet refuted: 1 / 5%.
const REFUTED: f64 = 20.0;

/// The interval at 95% of a share that may be looked at after each round, as often as one likes: in 95% of all series of looks,
/// every interval has the true share.
///
/// It has the shares p for which the mean likelihood under the prior Beta(1/2, 1/2), divided by the likelihood under p, is
/// below 20. For the true p this ratio is a martingale that starts at 1, which ever reaches 20 with a chance of at most 5%
/// (Ville): Robbins, Statistical methods related to the law of the iterated logarithm, Ann. Math. Statist. 41 (1970); Howard,
/// Ramdas, McAuliffe, Sekhon, Time-uniform, nonparametric, nonasymptotic confidence sequences, Ann. Statist. 49 (2021). It is
/// exact for any share, also near 0. Rows that are drawn from a base without putting them back vary less, so the interval is
/// wider there than it had to be.
pub(crate) fn sequential(part: u64, whole: u64) -> Interval {
    let (hits, others) = (part as f64, whole.saturating_sub(part) as f64);
    let share = hits / (hits + others).max(1.0);
    let mean = ln_gamma(hits + 0.5) + ln_gamma(others + 0.5)
        - ln_gamma(hits + others + 1.0)
        - std::f64::consts::PI.ln();
    // Zero times the logarithm of zero is nothing.
    let times_ln = |number: f64, p: f64| if number > 0.0 { number * p.ln() } else { 0.0 };
    let is_in = |p: f64| mean - times_ln(hits, p) - times_ln(others, 1.0 - p) < REFUTED.ln();
    // The ratio is least at the share that was seen, and rises to both sides.
    let end = |mut outside: f64| {
        let mut inside = share;
        // As many halvings as a double has digits.
        for _ in 0..53 {
            let middle = f64::midpoint(inside, outside);
            *(if is_in(middle) {
                &mut inside
            } else {
                &mut outside
            }) = middle;
        }
        outside
    };
    Interval {
        low: if is_in(0.0) { 0.0 } else { end(0.0) },
        high: if is_in(1.0) { 1.0 } else { end(1.0) },
    }
}

/// The logarithm of the gamma function of a positive number, by Stirling's series, which has 10 digits from 8 on.
fn ln_gamma(x: f64) -> f64 {
    if x < 8.0 {
        return ln_gamma(x + 1.0) - x.ln();
    }
    let series = (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / (1260.0 * x * x)) / (x * x)) / x;
    (x - 0.5) * x.ln() - x + (2.0 * std::f64::consts::PI).ln() / 2.0 + series
}

/// How much of a base was sampled. A sample is of distinct requests: equal ones are all in it or all out of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SampleSize {
    /// The share of the requests that were drawn, in percent.
    pub(crate) percent: f64,
    /// Rows with a verdict.
    pub(crate) rows: u64,
    /// The different requests among them.
    pub(crate) requests: u64,
    /// The sample has grown in rounds, and was looked at after each.
    pub(crate) grows: bool,
}

impl SampleSize {
    /// The interval at 95% of this part of some rows of the sample. Equal requests have one answer, and so are one observation.
    pub(crate) fn interval(&self, part: u64, whole: u64) -> Interval {
        let distinct = self.requests as f64 / self.rows.max(1) as f64;
        let [hits, seen] = [part, whole].map(|rows| rows as f64 * distinct);
        if self.grows {
            return sequential(rounded(hits), rounded(seen));
        }
        wilson(part as f64 / whole.max(1) as f64, seen)
    }

    /// About how many there are in the whole base, of which the sample has so many.
    pub(crate) fn in_all(&self, number: u64) -> u64 {
        rounded(number as f64 * 100.0 / self.percent)
    }
}

/// A number of rows that is not negative.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates, and is about"
)]
pub(crate) fn rounded(number: f64) -> u64 {
    number.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_intervals_are_those_that_were_published() {
        // Newcombe 1998, table I, method 3.
        for (part, whole, low, high) in [
            (81, 263, 0.2553, 0.3662),
            (15, 148, 0.0624, 0.1605),
            (0, 20, 0.0, 0.1611),
            (1, 29, 0.0061, 0.1718),
        ] {
            let found = wilson(f64::from(part) / f64::from(whole), f64::from(whole));
            assert!(
                (found.low - low).abs() < 5e-5,
                "{part} of {whole}: {found:?}"
            );
            assert!(
                (found.high - high).abs() < 5e-5,
                "{part} of {whole}: {found:?}"
            );
        }
        let nothing = wilson(0.0, 0.0);
        assert!(nothing.low <= 0.0 && nothing.high >= 1.0);
    }

    #[test]
    fn only_a_difference_that_is_no_chance_is_one() {
        for (group, others, rows) in [
            ((30, 100), (100, 1_000), 20.0),
            ((0, 200), (100, 1_000), -20.0),
            ((100_000, 200_000), (490_000, 1_000_000), 2_000.0),
            ((10, 10), (0, 10), 10.0),
        ] {
            let found = beyond_chance(group, others).unwrap();
            assert!((found - rows).abs() < 1e-6, "{group:?}: {found}");
        }
        for (group, others) in [
            ((13, 100), (100, 1_000)),
            ((5, 8), (30, 192)),
            ((2, 2), (14, 198)),
            // Half of 9 rows are too few to expect.
            ((9, 9), (0, 9)),
            ((0, 0), (100, 1_000)),
            ((3, 3), (0, 0)),
        ] {
            assert_eq!(beyond_chance(group, others), None, "{group:?}");
        }
    }

    #[test]
    fn the_gamma_function_has_its_known_values() {
        let half = std::f64::consts::PI.sqrt().ln();
        for (x, expected) in [
            (0.5, half),
            (1.0, 0.0),
            (5.0, 24_f64.ln()),
            (11.0, 3_628_800_f64.ln()),
        ] {
            assert!((ln_gamma(x) - expected).abs() < 1e-9, "{x}");
        }
    }

    #[test]
    fn a_sequential_interval_ends_where_the_ratio_is_20_and_holds_at_both_ends() {
        assert_eq!(sequential(0, 0), Interval::ANY);
        let none = sequential(0, 200);
        assert!(none.low <= 0.0);
        // Without a hit, the mean likelihood is a product of odd numbers over even ones.
        let mean: f64 = (1..=200)
            .map(|n| (f64::from(n) - 0.5) / f64::from(n))
            .product();
        assert!(
            (mean / (1.0 - none.high).powi(200) - 20.0).abs() < 1e-6,
            "{none:?}"
        );
        let all = sequential(200, 200);
        assert!(all.high >= 1.0);
        assert!((all.low + none.high - 1.0).abs() < 1e-9);
        // It is wider than an interval for a single look.
        let (once, often) = (wilson(0.05, 10_000.0), sequential(500, 10_000));
        assert!(often.low < once.low && once.high < often.high);
        assert!(often.high - often.low < 2.2 * (once.high - once.low));
    }

    /// A base of this many requests, in rounds of 1, 2, 4 … % of it.
    const BASE: u64 = 100_000;
    const RUNS: u64 = 200;

    #[test]
    fn the_true_share_is_in_every_interval_of_95_percent_of_the_runs() {
        for bad in [100, 5_000, 50_000] {
            let mut random = fastrand::Rng::with_seed(bad);
            let missed = (0..RUNS).filter(|_| {
                // Which are bad is drawn as the requests come: without putting them back.
                let (mut hits, mut drawn, mut round) = (0, 0, BASE / 100);
                let share = bad as f64 / BASE as f64;
                while round < BASE {
                    while drawn < round {
                        hits += u64::from(random.u64(0..BASE - drawn) < bad - hits);
                        drawn += 1;
                    }
                    let found = sequential(hits, drawn);
                    if share < found.low || found.high < share {
                        return true;
                    }
                    round *= 2;
                }
                false
            });
            let missed = missed.count() as u64;
            assert!(
                missed * 100 <= RUNS * 5,
                "{bad}: {missed} of {RUNS} missed it"
            );
        }
    }
}
