//! `rescore report`: a scored file in, a page of HTML out. Nothing here touches the network.
//!
//! The earlier file is read first, if there is one, and its verdicts are kept by their key; then the scored file is read once
//! and counted, and `report` makes the page.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::hash::BuildHasher as _;
use std::io::Read as _;
use std::path::Path;

use super::files::refuse_clashes;
use super::inputs::{no_rows, open_scored, read_ahead};
use super::signals::Interrupts;
use crate::analysis::{GroupTally, PastVerdict, RowTally, number_of};
use crate::base::error::{Error, Exit, Result};
use crate::base::text::{quoted, shown};
use crate::config::{EarlierFile, ReportConfig};
use crate::input::{Input, Opened, refuse_missing};
use crate::layout::Layout;
use crate::observe::{ReportedRun, count, counted, stamp, tell, warn};
use crate::output::{Document, OutputFile, Replace, Target};
use crate::report::{Comparison, PageContent, PairingCounts, page};
use crate::row_state::{Row, RowState, earlier_verdict};
use crate::sandbox::ID_PREFIX;
use crate::verdict::{Decision, Score, Thresholds};

/// How many values of a column a page shows.
const TOP: usize = 20;
/// No summary is longer, not even one of many thousand files.
const LONGEST_SUMMARY: u64 = 16 * 1024 * 1024;

/// Makes the page.
///
/// # Errors
/// Exit code 2: a file cannot be read, does not have the columns, or may not be written. Exit code 3: the page cannot be
/// written.
pub(crate) fn execute(config: &ReportConfig) -> Result<Exit> {
    refuse_missing(&config.scored.input)?;
    refuse_overwriting(config)?;
    let interrupts = Interrupts::listen()?;
    let replace = |_: &Path| Replace::by(config.overwrite);
    let target = { config.output.as_deref() }.map(|path| Target::new(path, replace));
    let target = target.transpose()?;
    let (content, mode) = count_rows(config)?;
    let output = match &target {
        Some(target) => interrupts.opening(target.partial(), || target.open(mode))?,
        None => OutputFile::stdout(),
    };
    if let Some(path) = Document::new(output).complete(&page(&content))? {
        let (path, rows) = (shown(&path), counted(content.tally.rows(), "row"));
        tell(&format!("rescore: wrote {path}: a report on {rows}"));
    }
    Ok(Exit::Complete)
}

/// Fails if the page would overwrite one of its sources.
fn refuse_overwriting(config: &ReportConfig) -> Result<()> {
    let against = config.against.as_ref().map(|against| &against.file.input);
    let summary = config.summary.clone().map(Input::File);
    let mut sources = [Some(&config.scored.input), against, summary.as_ref()]
        .into_iter()
        .flatten();
    sources.try_for_each(|source| refuse_clashes(source, &[("report", config.output.as_deref())]))
}

/// Reads the scored file and what it is compared with. Returns what the page shows, and who may read it.
///
/// # Errors
/// Exit code 2: a file cannot be read, the earlier file has no rows or none of this one's, or the summary is about another
/// file.
fn count_rows(config: &ReportConfig) -> Result<(PageContent, u32)> {
    let run = config.summary.as_deref().map(read_summary).transpose()?;
    // These columns are asked for first, then the key.
    let key = config.against.iter().map(|against| against.key.clone());
    let columns = config.by.iter().cloned().chain(key).collect();
    // Opened first, as it fails at its first line if it is not a scored file, and the earlier one only after being read.
    let (reader, opened) = open_scored(&config.scored, &config.prefix, columns)?;
    let (layout, name) = (&opened.layout, &opened.name);
    let mut past = { config.against.as_ref() }
        .map(|against| PastVerdicts::read(against, &config.prefix, &config.thresholds))
        .transpose()?;
    let mut tally = RowTally::new(Some(&config.thresholds));
    let mut groups = vec![GroupTally::default(); config.by.len()];
    let mut sandbox = run.as_ref().is_some_and(|run| run.sandbox);
    for batch in read_ahead(reader)? {
        for row in &batch?.rows {
            let before =
                { past.as_mut() }.and_then(|past| past.find(&asked(row, layout, groups.len())));
            let (score, decision) = verdict_of(row, layout);
            tally.count((score.as_ref(), decision), before);
            for (place, group) in groups.iter_mut().enumerate() {
                group.count(asked(row, layout, place).as_bytes(), decision);
            }
            if !sandbox && matches!(row.state, RowState::Scored(_)) {
                let id = layout.value(row.raw.slice(row.raw.value_of(0)));
                sandbox = id.starts_with(ID_PREFIX);
            }
        }
    }
    { no_rows(name, tally.rows()) }
        .iter()
        .for_each(|warning| warn(warning));
    let comparison = { config.against.as_ref().zip(past) }
        .map(|(against, past)| past.comparison(against, name))
        .transpose()?;
    let redecided = { run.as_ref().zip(config.summary.as_deref()) }
        .map(|(run, path)| is_redecided(run, path, &tally, name))
        .transpose()?
        .unwrap_or_default();
    if !redecided && run.as_ref().is_some_and(|run| run.levels.is_some()) {
        tally.decided_by_level();
    }
    let groups = config.by.iter().zip(groups);
    let groups = groups.map(|(column, groups)| (column.clone(), groups.top(TOP)));
    let content = PageContent {
        file: name_of(&config.scored.input),
        hash: opened.meter.hash(),
        made: stamp(),
        sandbox,
        tally,
        comparison,
        groups: groups.collect(),
        run,
        redecided,
    };
    Ok((content, opened.mode))
}

/// The value of one of the columns that are asked for; empty in a row that cannot be read.
fn asked<'a>(row: &'a Row, layout: &Layout, place: usize) -> Cow<'a, str> {
    let span = match &row.state {
        RowState::Scored(asked) => asked.get(place).copied(),
        _ => None,
    };
    layout.value(row.raw.slice(span.unwrap_or_default()))
}

/// The score and the decision of a row. A value that is not one counts as none, as do all of a row that cannot be read.
fn verdict_of(row: &Row, layout: &Layout) -> (Option<Score>, Option<Decision>) {
    match row.state {
        RowState::Scored(_) => earlier_verdict(&row.raw, layout),
        _ => (None, None),
    }
}

/// A verdict before. Where only the decision is missing, today's thresholds decide.
fn past_verdict(
    score: Option<&Score>,
    decision: Option<Decision>,
    thresholds: &Thresholds,
) -> Option<PastVerdict> {
    let by_score = || score.map(|score| thresholds.decide(score));
    Some(PastVerdict {
        decision: decision.or_else(by_score)?,
        score: score.map(number_of),
    })
}

/// The verdicts of an earlier file, by the key of their rows: users come and go between two files, so rows are not paired
/// by their position. Of each row a few bytes are kept, and nothing of a user but a hash of the key.
#[derive(Default)]
struct PastVerdicts {
    name: String,
    rows: HashMap<u64, PastRow>,
    counts: PairingCounts,
}

/// A row of the earlier file.
struct PastRow {
    verdict: Option<PastVerdict>,
    /// Several rows have this key, with different verdicts.
    is_ambiguous: bool,
    is_found: bool,
}

impl PastVerdicts {
    /// Reads an earlier file.
    ///
    /// # Errors
    /// Exit code 2: it cannot be read, or is not a scored file.
    fn read(against: &EarlierFile, prefix: &str, thresholds: &Thresholds) -> Result<Self> {
        let key = vec![against.key.clone()];
        let (reader, Opened { layout, name, .. }) = open_scored(&against.file, prefix, key)?;
        let mut past = Self {
            name,
            ..Self::default()
        };
        for batch in read_ahead(reader)? {
            for row in batch?.rows {
                let (score, decision) = verdict_of(&row, &layout);
                let verdict = past_verdict(score.as_ref(), decision, thresholds);
                past.add(&asked(&row, &layout, 0), verdict);
            }
        }
        Ok(past)
    }

    /// What a row is recognised by; `None` if it has no key.
    fn hash(&self, key: &str) -> Option<u64> {
        let key = key.trim();
        (!key.is_empty()).then(|| self.rows.hasher().hash_one(key))
    }

    fn add(&mut self, key: &str, verdict: Option<PastVerdict>) {
        if let Some(hash) = self.hash(key) {
            let row = self.rows.entry(hash).or_insert(PastRow {
                verdict,
                is_ambiguous: false,
                is_found: false,
            });
            row.is_ambiguous |= row.verdict != verdict;
        }
    }

    /// The verdict before on the row with this key. Also counts whether there is one.
    fn find(&mut self, key: &str) -> Option<PastVerdict> {
        let hash = self.hash(key);
        let Some(row) = hash.and_then(|hash| self.rows.get_mut(&hash)) else {
            self.counts.new += 1;
            return None;
        };
        row.is_found = true;
        if row.is_ambiguous {
            self.counts.ambiguous += 1;
            return None;
        }
        self.counts.paired += 1;
        row.verdict
    }

    /// What the page shows of the comparison with this file.
    ///
    /// # Errors
    /// Exit code 2: it has no rows, or none of the other file's.
    fn comparison(self, against: &EarlierFile, file: &str) -> Result<Comparison> {
        let (earlier, counts) = (&self.name, self.counts);
        if self.rows.is_empty() {
            let message = format!("{earlier} has no rows to compare with");
            return Err(Error::usage(message));
        }
        if counts.paired + counts.ambiguous == 0 && counts.new > 0 {
            let column = quoted(&against.key);
            let message = format!("no row of {file} is in {earlier}, by the column {column}");
            return Err(Error::usage(message));
        }
        let gone = self.rows.values().filter(|row| !row.is_found).count() as u64;
        Ok(Comparison::File {
            name: name_of(&against.file.input),
            pairing: PairingCounts {
                key: against.key.clone(),
                gone,
                ..counts
            },
        })
    }
}

/// A file's name without its directory, which has no place in a page that is passed on.
fn name_of(input: &Input) -> String {
    let name = input.path().and_then(Path::file_name);
    name.map_or_else(|| input.shown(), |name| name.to_string_lossy().into_owned())
}

/// Reads the summary of the run that wrote the file.
///
/// # Errors
/// Exit code 2: it cannot be read, or is not a summary.
fn read_summary(path: &Path) -> Result<ReportedRun> {
    let mut json = String::new();
    let file = File::open(path);
    let read = file.and_then(|file| file.take(LONGEST_SUMMARY).read_to_string(&mut json));
    read.map_err(|e| Error::usage(format!("cannot read `{}`", path.display())).because(e))?;
    ReportedRun::parse(&json).map_err(|why| {
        Error::usage(format!("`{}` is not the summary of a run", path.display()))
            .detail(why)
            .hint("`rescore run --summary FILE` writes one")
    })
}

/// Whether the file has other decisions than its run's summary, as after `rescore decide`.
///
/// # Errors
/// Exit code 2: it is not the summary of the run that wrote the file, as it is about another number of rows.
fn is_redecided(run: &ReportedRun, summary: &Path, tally: &RowTally, file: &str) -> Result<bool> {
    let [written, rows] = [run.counts.rows.written, tally.rows()].map(count);
    if written != rows {
        let summary = summary.display();
        let message = format!("`{summary}` is about {written} rows, but {file} has {rows}");
        let hint = "give the summary of the run that wrote this file to `--run`";
        return Err(Error::usage(message).hint(hint));
    }
    let differs = |decision| run.counts.decisions.of(decision) != tally.decisions.of(decision);
    Ok(Decision::ALL.into_iter().map(Some).any(differs))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_with_its_verdict_and_others_are_new_or_gone() {
        let mut past = PastVerdicts::default();
        let verdict = |score: &str, decision| {
            let score = Score::from_json_number(score).unwrap();
            past_verdict(Some(&score), decision, &Thresholds::default())
        };
        past.add("1", verdict("1.5", Some(Decision::Block)));
        past.add("2", None);
        past.add(" 3 ", verdict("9", None));
        // The same twice, and two that differ.
        past.add("4", verdict("1", None));
        past.add("4", verdict("1", None));
        past.add("5", verdict("1", None));
        past.add("5", verdict("3", None));
        past.add("6", None);
        past.add("", None);
        let mut find = |key: &str| past.find(key);
        assert_eq!(find("1"), verdict("1.5", Some(Decision::Block)));
        assert_eq!(find("2"), None);
        // By today's thresholds, as a decision is all that it lacks.
        assert_eq!(find("3"), verdict("9", Some(Decision::Block)));
        assert_eq!(find("4"), verdict("1", Some(Decision::Approve)));
        assert_eq!((find("5"), find("7"), find("")), (None, None, None));
        let counts = &past.counts;
        assert_eq!((counts.paired, counts.ambiguous, counts.new), (4, 1, 2));
        let gone = past.rows.values().filter(|row| !row.is_found);
        assert_eq!((past.rows.len(), gone.count()), (6, 1));
    }
}
