//! What people see, without what differs from run to run: measured times, dates, file sizes, and the server's address.

/// The text with `TIME`, `SPEED`, `SIZE` and `MOMENT` in place of measured values.
pub(crate) fn without_times(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(line_without_times).collect();
    lines.join("\n")
}

fn line_without_times(line: &str) -> String {
    const MEASURED: [&str; 4] = ["in", "p50", "p95", "p99"];
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let words: Vec<_> = line.split(' ').collect();
    let (mut left, mut shown) = (&words[..], Vec::new());
    while let [word, rest @ ..] = left {
        let before = shown.last().map_or("", String::as_str);
        let (replaced, taken) = match rest {
            ["rows/s", ..] if is_number(word) => ("SPEED".to_owned(), 1),
            ["bytes,", ..] | ["bytes", "before,", ..] | ["an" | "per", "answer", ..]
                if is_number(word) =>
            {
                ("SIZE".to_owned(), 1)
            }
            [_, "in", "total", ..] if is_number(word) => ("TIME".to_owned(), 2),
            [unit, ..]
                if is_number(word) && MEASURED.contains(&before) && !unit.starts_with("row") =>
            {
                let end = unit.trim_start_matches(char::is_alphabetic);
                (format!("TIME{end}"), 2)
            }
            [time, ..] if is_date(word) => {
                let end = time.trim_start_matches(|c: char| c.is_ascii_digit() || c == ':');
                (format!("MOMENT{end}"), 2)
            }
            ["now"] if before == "before," => ("SIZE".to_owned(), 1),
            // A time today is shown without its date.
            _ if is_time_of_day(word) || is_stamp(word) || is_month(word) => {
                ("MOMENT".to_owned(), 1)
            }
            _ => ((*word).to_owned(), 1),
        };
        shown.push(replaced);
        left = &left[taken..];
    }
    shown.join(" ")
}

fn is_date(word: &str) -> bool {
    is_numbers(word, '-', 3)
}

fn is_month(word: &str) -> bool {
    word.len() == 7 && is_numbers(word, '-', 2)
}

fn is_time_of_day(word: &str) -> bool {
    is_numbers(word, ':', 2) || is_numbers(word, ':', 3)
}

/// Whether it is the time in front of a line: `2026-11-22T18:20:00+00:00`.
pub(crate) fn is_stamp(word: &str) -> bool {
    let Some((date, time)) = word.split_once('T') else {
        return false;
    };
    let (time, offset) = time.split_at_checked(8).unwrap_or_default();
    let is_offset = offset
        .strip_prefix(['+', '-'])
        .is_some_and(|offset| is_numbers(offset, ':', 2));
    is_date(date) && is_numbers(time, ':', 3) && is_offset
}

/// Whether it is this many numbers, separated by this character.
fn is_numbers(word: &str, between: char, count: usize) -> bool {
    let parts: Vec<_> = word.split(between).collect();
    let is_number = |part: &&str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    parts.len() == count && parts.iter().all(is_number)
}
