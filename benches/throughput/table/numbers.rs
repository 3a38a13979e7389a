//! What is computed from the values of several rounds, and how numbers are written.

/// The value in the middle; of an even number of values, the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

/// The smallest and the largest value.
pub(crate) fn extremes(values: &[f64]) -> (f64, f64) {
    values.iter().fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(least, most), value| (least.min(*value), most.max(*value)),
    )
}

/// Our values divided by those of the baseline in the same round.
pub(crate) fn ratios(ours: &[f64], baseline: &[f64]) -> Vec<f64> {
    ours.iter().zip(baseline).map(|(a, b)| a / b).collect()
}

/// A count, to calculate with.
#[allow(clippy::cast_precision_loss, reason = "exact up to 9 petabytes")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

/// A number with so many digits after the point, and commas between its thousands.
pub(crate) fn text(value: f64, digits: usize) -> String {
    thousands(&format!("{value:.digits$}"))
}

/// Puts commas between the thousands of a number.
pub(crate) fn thousands(number: &str) -> String {
    let whole = number.split('.').next().unwrap_or_default().len();
    let mut grouped = String::new();
    for (at, digit) in number.chars().enumerate() {
        if at > 0 && at < whole && (whole - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// What the mean will be after `later` steps, if each step goes on to cost more than the one before by as much as these do:
/// the line of least squares through them.
#[allow(clippy::cast_precision_loss, reason = "there are ten")]
pub(crate) fn estimate(steps: &[f64], later: f64) -> f64 {
    let points: Vec<(f64, f64)> = (1..).map(f64::from).zip(steps.iter().copied()).collect();
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (middle, height) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|(x, _)| (x - middle).powi(2)).sum();
    let rise: f64 = points
        .iter()
        .map(|(x, y)| (x - middle) * (y - height))
        .sum();
    // The mean of the steps on a line is that of its middle.
    height + rise / spread * (f64::midpoint(1.0, later) - middle)
}
