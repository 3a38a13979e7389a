//! The part of `docs/benchmarks.md` that the benchmark writes.
//!
//! It is between two comments; what is around them is not touched. Lines that were measured are replaced, the others keep
//! their values and say in which run they got them. Order, headings and aims are always those of [`super::lines`].

use std::collections::{BTreeMap, btree_map::Entry as Slot};

use super::lines::{GROUPS, Line};
use super::measured::Entry;

const START: &str =
    "<!-- From here on, written by `cargo bench --bench throughput -- --write`. -->\n";
const END: &str = "<!-- Up to here. -->\n";
const HEAD: &str = "| Measure | Aim | Median | Range | Baseline in the same run | Rounds | Run |\n\
                    |---|---|--:|--:|---|--:|--:|\n";
const RUNS_HEAD: &str = "## Runs\n\n| Run | Day | Version | Machine |\n|--:|---|---|---|\n";

/// The day on which lines were measured, the version of the program, and the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) day: String,
    pub(crate) version: String,
    pub(crate) machine: String,
}

/// The document, taken apart.
#[derive(Debug)]
pub(crate) struct Document {
    before: String,
    after: String,
    /// By their measures.
    lines: BTreeMap<String, (Entry, Run)>,
}

impl Document {
    /// Takes the text apart, or says what is wrong with it.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let without = |comment: &str| format!("this line is missing: {}", comment.trim_end());
        let (before, rest) = text.split_once(START).ok_or_else(|| without(START))?;
        let (written, after) = rest.split_once(END).ok_or_else(|| without(END))?;
        let rows: Vec<Vec<&str>> = written.lines().filter_map(cells).collect();
        let runs: BTreeMap<&str, Run> = rows.iter().filter_map(|row| run(row)).collect();
        let mut lines = BTreeMap::new();
        for row in &rows {
            let [measure, _, median, range, baseline, rounds, number] = row[..] else {
                continue;
            };
            // The heads of the tables and lines without a value have none.
            let Some(run) = runs.get(number) else {
                continue;
            };
            let entry = Entry {
                median: median.trim_matches('*').to_owned(),
                range: range.to_owned(),
                baseline: baseline.to_owned(),
                rounds: rounds.to_owned(),
            };
            match lines.entry(measure.to_owned()) {
                Slot::Vacant(slot) => slot.insert((entry, run.clone())),
                Slot::Occupied(_) => return Err(format!("this measure has two lines: {measure}")),
            };
        }
        Ok(Self {
            before: before.to_owned(),
            after: after.to_owned(),
            lines,
        })
    }

    /// Replaces a line.
    pub(crate) fn put(&mut self, line: &Line, entry: &Entry, run: &Run) {
        let value = (entry.clone(), run.clone());
        self.lines.insert(line.measure.to_owned(), value);
    }

    /// Puts it together again.
    pub(crate) fn text(&self) -> String {
        let mut runs: Vec<&Run> = Vec::new();
        let mut text = self.before.clone() + START;
        for group in GROUPS {
            text += &format!("\n## {}\n\n{HEAD}", group.heading);
            for line in group.lines {
                text += &self.row(line, &mut runs);
            }
        }
        text += &format!("\n{RUNS_HEAD}");
        for (number, run) in (1..).zip(&runs) {
            let Run {
                day,
                version,
                machine,
            } = run;
            text += &row(&[&number.to_string(), day, version, machine]);
        }
        text + "\n" + END + &self.after
    }

    /// A line's row; a run that no line above was measured in gets the next number.
    fn row<'a>(&'a self, line: &Line, runs: &mut Vec<&'a Run>) -> String {
        let aim = line.aim.to_string();
        let Some((entry, run)) = self.lines.get(line.measure) else {
            return row(&[line.measure, &aim, "", "", "not measured yet", "", ""]);
        };
        let number = runs.iter().position(|other| *other == run);
        let number = number.unwrap_or_else(|| {
            runs.push(run);
            runs.len() - 1
        });
        let missed =
            { entry.median.replace(',', "").parse() }.is_ok_and(|median| !line.aim.is_met(median));
        let median = if missed {
            format!("**{}**", entry.median)
        } else {
            entry.median.clone()
        };
        row(&[
            line.measure,
            &aim,
            &median,
            &entry.range,
            &entry.baseline,
            &entry.rounds,
            &(number + 1).to_string(),
        ])
    }
}

/// A row of a table.
fn row(cells: &[&str]) -> String {
    let cells = cells.iter().map(|cell| match *cell {
        "" => " ".to_owned(),
        cell => format!(" {cell} "),
    });
    let cells: Vec<_> = cells.collect();
    format!("|{}|\n", cells.join("|"))
}

/// The cells of a table's row.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inside = line.strip_prefix('|')?.strip_suffix('|')?;
    Some(inside.split('|').map(str::trim).collect())
}

/// A row of the table of runs, with the number of the run.
fn run<'a>(cells: &[&'a str]) -> Option<(&'a str, Run)> {
    let [number, day, version, machine] = *cells else {
        return None;
    };
    number.parse::<usize>().ok()?;
    let run = Run {
        day: day.to_owned(),
        version: version.to_owned(),
        machine: machine.to_owned(),
    };
    Some((number, run))
}
