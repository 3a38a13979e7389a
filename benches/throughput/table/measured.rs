//! What was measured: the values of several rounds as cells of the table.

use std::fmt;

use super::lines::{GROUPS, Line};
use super::numbers::{extremes, median, text};

/// The cells of a line that come from measuring it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) median: String,
    /// Empty after a single round.
    pub(crate) range: String,
    pub(crate) baseline: String,
    pub(crate) rounds: String,
}

impl Entry {
    /// Of the values of all rounds; `digits` are those after the point.
    pub(crate) fn new(values: &[f64], digits: usize, baseline: &str) -> Self {
        let (least, most) = extremes(values);
        Self {
            median: text(median(values), digits),
            range: match values {
                [_] => String::new(),
                _ => format!("{}–{}", text(least, digits), text(most, digits)),
            },
            baseline: baseline.to_owned(),
            rounds: values.len().to_string(),
        }
    }
}

/// The lines that were measured, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Table(Vec<(&'static Line, Entry)>);

impl Table {
    /// Adds a line with the values of its rounds, and with what was measured beside it.
    pub(crate) fn add(&mut self, line: &'static Line, values: &[f64], baseline: impl AsRef<str>) {
        let entry = Entry::new(values, line.digits, baseline.as_ref());
        self.0.push((line, entry));
    }

    /// Adds the lines of another table.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&'static Line, &Entry)> {
        self.0.iter().map(|(line, entry)| (*line, entry))
    }
}

/// For the terminal: the lines in their places, under their headings.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for group in GROUPS {
            let mut lines = { group.lines.iter() }
                .filter_map(|line| self.entries().find(|(of, _)| of.measure == line.measure))
                .peekable();
            if lines.peek().is_some() {
                writeln!(f, "\n{}\n", group.heading)?;
            }
            for (line, entry) in lines {
                write!(f, "  {}: {}", line.measure, entry.median)?;
                if !entry.range.is_empty() {
                    write!(f, " ({})", entry.range)?;
                }
                if line.aim != super::Aim::None {
                    write!(f, ", aim {}", line.aim)?;
                }
                if !entry.baseline.is_empty() {
                    write!(f, "; {}", entry.baseline)?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}
