//! Shares as people read them, on a terminal and on paper.

/// A share in percent with one decimal, without the sign: only nothing is `0`, and only all is `100`.
///
/// A share of nothing is `–`.
#[must_use]
pub(crate) fn percent_of(part: u64, whole: u64) -> String {
    #[allow(clippy::cast_precision_loss, reason = "shown with one decimal")]
    let percent = part as f64 / whole as f64 * 100.0;
    match (part, whole) {
        (_, 0) => "–".to_owned(),
        (0, _) => "0".to_owned(),
        (part, whole) if part == whole => "100".to_owned(),
        _ if percent < 0.05 => "<0.1".to_owned(),
        _ if percent >= 99.95 => ">99.9".to_owned(),
        _ => format!("{percent:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_never_round_to_nothing_or_all() {
        assert_eq!(percent_of(0, 10), "0");
        assert_eq!(percent_of(10, 10), "100");
        assert_eq!(percent_of(1, 100_000), "<0.1");
        assert_eq!(percent_of(99_999, 100_000), ">99.9");
        assert_eq!(percent_of(1, 3), "33.3");
        assert_eq!(percent_of(2, 3), "66.7");
        assert_eq!(percent_of(0, 0), "–");
    }
}
