//! Progress on a terminal: a bar with the rows, and a line below it that says why calls wait and what they brought. Both fit
//! terminals of any width. Where they are drawn is left to `base::stderr`.

/// Columns of the bar itself, by the columns of the terminal: the words beside it matter more.
const GAUGES: [(usize, usize); 2] = [(72, 16), (50, 8)];
/// What fills the bar; the last of them a part of a column.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
const SEPARATOR: &str = " · ";

/// The two lines for a terminal of this width. `share` is the part that is done, from 0 to 1; `None` if it is not known.
pub(super) fn picture(
    share: Option<f64>,
    [head, below]: [Vec<String>; 2],
    columns: u16,
) -> Vec<String> {
    // After the last column some terminals start a new line and others do not.
    let width = usize::from(columns).saturating_sub(1);
    let fits = GAUGES.iter().find(|(least, _)| width >= *least);
    let gauge = share
        .zip(fits)
        .map(|(share, (_, columns))| gauge(share, *columns) + " ");
    let gauge = gauge.unwrap_or_default();
    let room = width - gauge.chars().count();
    vec![gauge + &fit(head, room), fit(below, width)]
}

/// A bar of so many columns. It is full only when everything is done.
fn gauge(share: f64, columns: usize) -> String {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share is from 0 to 1"
    )]
    let eighths = (share * (columns * EIGHTHS.len()) as f64) as usize;
    let (whole, part) = (eighths / EIGHTHS.len(), eighths % EIGHTHS.len());
    let part = EIGHTHS.get(part).copied().unwrap_or_default();
    let filled = "█".repeat(whole) + &part.to_string();
    format!("{filled:columns$}").chars().take(columns).collect()
}

/// As many of these parts as fit, whole and in this order. Only the first is cut, if it alone is too long.
fn fit(parts: Vec<String>, width: usize) -> String {
    let mut line = String::new();
    for part in parts {
        if line.is_empty() {
            line = cut(part, width);
        } else if line.chars().count() + SEPARATOR.chars().count() + part.chars().count() <= width {
            line += SEPARATOR;
            line += &part;
        }
    }
    line
}

fn cut(text: String, width: usize) -> String {
    if text.chars().count() <= width {
        return text;
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(['…']).take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(share: Option<f64>, columns: u16) -> Vec<String> {
        let parts = |words: [&str; 4]| words.map(str::to_owned).to_vec();
        let head = parts(["40.4 %", "1,234,567 rows", "ETA 12 min 3 s", "412 rows/s"]);
        let below = parts([
            "pace 48.0/s, cut to see if throttling drops",
            "limit found: about 50.0/s",
            "approve 1,000,000, review 200,000",
            "16 in flight, 5 retries",
        ]);
        picture(share, [head, below], columns)
    }

    #[test]
    fn a_narrow_bar_keeps_what_comes_first_whole() {
        let wide = [
            "██████▍          40.4 % · 1,234,567 rows · ETA 12 min 3 s · 412 rows/s",
            "pace 48.0/s, cut to see if throttling drops · limit found: about 50.0/s",
        ];
        assert_eq!(drawn(Some(0.404), 80), wide);
        let narrow = [
            "███▏     40.4 % · 1,234,567 rows · ETA 12 min 3 s",
            "pace 48.0/s, cut to see if throttling drops",
        ];
        assert_eq!(drawn(Some(0.404), 60), narrow);
        let unknown = "40.4 % · 1,234,567 rows · ETA 12 min 3 s · 412 rows/s";
        assert_eq!(drawn(None, 80).first().map(String::as_str), Some(unknown));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_reason_is_cut_at_60_columns() {
        for width in 1..130 {
            for line in drawn(Some(0.5), width) {
                let columns = line.chars().count();
                assert!(columns < width.into(), "{columns} at {width}: {line}");
                assert!(!line.contains('…') || width < 60, "{width}: {line}");
            }
        }
    }

    #[test]
    fn the_bar_is_full_only_when_everything_is_done() {
        assert_eq!(gauge(0.0, 8), " ".repeat(8));
        assert_eq!(gauge(0.999, 16), "███████████████▉");
        assert_eq!(gauge(1.0, 8), "████████");
    }
}
