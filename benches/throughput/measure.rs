//! Rounds, their medians, CPU time, and the table that is printed in the end.

use std::fmt;
use std::fs;

/// Rounds of each measure.
pub(crate) const ROUNDS: usize = 5;

/// Runs both in turn, so that whatever else the machine does meets both alike.
pub(crate) fn in_turn<T>(
    rounds: usize,
    mut ours: impl FnMut() -> T,
    mut baseline: impl FnMut() -> T,
) -> (Vec<T>, Vec<T>) {
    (1..=rounds)
        .map(|round| {
            eprint!("\r  round {round} of {rounds} ");
            let both = (ours(), baseline());
            if round == rounds {
                eprintln!();
            }
            both
        })
        .unzip()
}

/// Our values divided by the baseline's of the same round.
pub(crate) fn ratios(ours: &[f64], baseline: &[f64]) -> Vec<f64> {
    ours.iter().zip(baseline).map(|(a, b)| a / b).collect()
}

/// Median and extremes of some rounds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Self {
            median,
            least: sorted[0],
            most: sorted[sorted.len() - 1],
        }
    }
}

/// With as many digits as the format asks for: `median (least–most)`.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(0);
        write!(
            f,
            "{} ({})",
            number(self.median, digits),
            self.range(digits)
        )
    }
}

impl Spread {
    fn range(&self, digits: usize) -> String {
        format!(
            "{}–{}",
            number(self.least, digits),
            number(self.most, digits)
        )
    }
}

/// A number with commas between its thousands.
fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let whole = text.split('.').next().unwrap_or_default().len();
    let mut grouped = String::new();
    for (at, c) in text.chars().enumerate() {
        if at > 0 && at < whole && (whole - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(c);
    }
    grouped
}

/// What was measured, as a Markdown table.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<[String; 5]>);

impl Table {
    /// Adds a measure; `digits` are those after the point.
    pub(crate) fn add(
        &mut self,
        measure: &str,
        target: &str,
        seen: &[f64],
        digits: usize,
        baseline: impl Into<String>,
    ) {
        let spread = Spread::of(seen);
        self.0.push([
            measure.to_owned(),
            target.to_owned(),
            number(spread.median, digits),
            spread.range(digits),
            baseline.into(),
        ]);
    }

    /// Adds a measure that could not be taken.
    pub(crate) fn skip(&mut self, measure: &str, target: &str, why: &str) {
        self.0.push([
            measure.to_owned(),
            target.to_owned(),
            "–".to_owned(),
            "–".to_owned(),
            why.to_owned(),
        ]);
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| measure | target | median | min–max | baseline |")?;
        writeln!(f, "|---|---|--:|--:|---|")?;
        for cells in &self.0 {
            writeln!(f, "| {} |", cells.join(" | "))?;
        }
        Ok(())
    }
}

/// CPU seconds of this process so far: all threads, ended ones as well, user and system. In steps of 10 ms.
pub(crate) fn cpu_seconds() -> f64 {
    // Linux shows these in hundredths everywhere.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    // The second field is the program's name in parentheses and may hold anything; user time is the 14th.
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let times = rest.split_whitespace().skip(11).take(2);
    times
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        / TICKS
}

/// The machine's processor and number of cores.
pub(crate) fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut models = text
        .lines()
        .filter_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map(|(_, model)| model);
    let model = models.next().unwrap_or("unknown processor");
    format!("{model}, {} cores", 1 + models.count())
}
