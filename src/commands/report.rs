//! `rescore report`: a scored file in, a page of HTML out. Nothing here touches the network.
//!
//! The earlier file is read first, if there is one, and its verdicts are kept by their key; then the scored file is read once
//! and counted, and `report` makes the page.

use std::collections::HashMap;
use std::fs::File;
use std::hash::BuildHasher as _;
use std::io::Read as _;
use std::path::Path;
use std::time::SystemTime;

use super::files::{NamedFile, refuse_clashes};
use super::interrupt::Interrupts;
use super::open_input::{bytes_ignored, open_scored};
use super::read_ahead::read_ahead;
use crate::analysis::{GroupTally, PastVerdict, RowTally, TalliedRow, number_of};
use crate::base::error::{Error, Exit, Result, quoted, shown};
use crate::base::thousands::grouped;
use crate::config::{EarlierFile, ReportConfig};
use crate::input::{AskedColumns, Input, Opened, ReadRow, Reader};
use crate::layout::{Layout, PREVIOUS, VERDICT_COLUMNS};
use crate::observe::{counted, stamp, tell, warn};
use crate::output::{Document, OutputFile, Replace, Target};
use crate::report::{ColumnGroups, Comparison, PageContent, PairingCounts, RunFacts, page};
use crate::row::Span;
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
pub(crate) fn execute(config: ReportConfig) -> Result<Exit> {
    refuse_overwriting(&config)?;
    let interrupts = Interrupts::listen()?;
    let replace = |_: &Path| Replace::by(config.overwrite);
    let target = { config.output.as_deref() }.map(|path| Target::new(path, replace));
    let target = target.transpose()?;
    let facts = config.summary.as_deref().map(read_summary).transpose()?;
    // Opened first, as it fails at its first line if it is not a scored file, and the earlier one only after being read.
    let key = { config.against.as_ref() }.map(|against| against.key.clone());
    let needed: Vec<_> = config.by.iter().cloned().chain(key).collect();
    let [_, score, decision] =
        VERDICT_COLUMNS.map(|name| format!("{PREVIOUS}{}{name}", config.prefix));
    let asked = AskedColumns::new(&needed, [score, decision]);
    let (reader, opened) = open_scored(&config.scored, &config.prefix, asked)?;
    let report = content(config, reader, &opened, facts)?;
    let output = match &target {
        Some(target) => interrupts.opening(target.partial(), || target.open(opened.mode))?,
        None => OutputFile::stdout()?,
    };
    if let Some(path) = Document::new(output).complete(&page(&report))? {
        let rows = counted(report.tally.rows(), "row");
        tell(&format!(
            "rescore: wrote {}: a report on {rows}",
            shown(&path)
        ));
    }
    Ok(Exit::Complete)
}

/// Fails if the page would overwrite one of its sources.
fn refuse_overwriting(config: &ReportConfig) -> Result<()> {
    let Some(output) = &config.output else {
        return Ok(());
    };
    let against = config.against.as_ref().map(|against| &against.file);
    let inputs = [Some(&config.scored), against].into_iter().flatten();
    let inputs = inputs.filter_map(|file| NamedFile::input(&file.input));
    let summary = config.summary.as_deref().map(NamedFile::input_at);
    inputs
        .chain(summary)
        .try_for_each(|input| refuse_clashes(&[input, NamedFile::partial("report", output)]))
}

/// Reads all files.
fn content(
    config: ReportConfig,
    reader: Reader,
    opened: &Opened,
    run: Option<RunFacts>,
) -> Result<PageContent> {
    let thresholds = &config.thresholds;
    let mut past = { config.against.as_ref() }
        .map(|against| PastVerdicts::read(against, &config.prefix, thresholds))
        .transpose()?;
    let mut count = FileCount {
        layout: &opened.layout,
        thresholds,
        tally: RowTally::new(Some(thresholds)),
        groups: vec![GroupTally::default(); config.by.len()],
        pairing: PairingCounts::default(),
        sandbox: false,
    };
    for batch in read_ahead(reader)? {
        for row in &batch?.rows {
            count.row(row, past.as_mut());
        }
    }
    let FileCount {
        mut tally,
        groups,
        pairing,
        sandbox,
        ..
    } = count;
    let comparison = match (config.against, past) {
        (Some(against), Some(past)) => Some(against_file(against, &pairing, &past, &opened.name)?),
        _ => (tally.drift.decisions.compared() > 0).then_some(Comparison::Own),
    };
    let redecided = match (&run, &config.summary) {
        (Some(facts), Some(path)) => is_redecided(facts, path, &tally, &opened.name)?,
        _ => false,
    };
    if !redecided && run.as_ref().is_some_and(RunFacts::is_by_level) {
        tally.decided_by_level();
    }
    if tally.rows() == 0 {
        warn(&format!("{} has no rows", opened.name));
    }
    if opened.ignored.any() {
        warn(&bytes_ignored(&opened.name));
    }
    let groups = config.by.into_iter().zip(groups);
    let groups = groups.map(|(column, groups)| ColumnGroups {
        column,
        values: groups.top(TOP),
    });
    Ok(PageContent {
        file: name_of(&config.scored.input),
        made: stamp(SystemTime::now()),
        sandbox: sandbox || run.as_ref().is_some_and(RunFacts::is_sandbox),
        tally,
        comparison,
        groups: groups.collect(),
        run,
        redecided,
    })
}

/// What was counted of a scored file.
struct FileCount<'a> {
    layout: &'a Layout,
    thresholds: &'a Thresholds,
    /// Of all rows.
    tally: RowTally,
    /// By the values of each column. These columns are asked for first, then the key, then the verdict before.
    groups: Vec<GroupTally>,
    pairing: PairingCounts,
    /// A stand-in answered.
    sandbox: bool,
}

impl FileCount<'_> {
    /// Counts a row, with its verdict in an earlier file or else with the one that it had before.
    fn row(&mut self, read: &ReadRow, past: Option<&mut PastVerdicts>) {
        let layout = self.layout;
        let written = |span: Span| read.row.slice(span);
        let asked = |place: usize| read.asked.get(place).copied().unwrap_or_default();
        let by = self.groups.len();
        let before = if let Some(past) = past {
            past.find(&layout.value(written(asked(by))), &mut self.pairing)
        } else {
            let (score, decision) = verdict_at(read, layout, (asked(by), asked(by + 1)));
            past_verdict(score.as_ref(), decision, self.thresholds)
        };
        let earlier = read.row.earlier;
        let (score, decision) = verdict_at(read, layout, (earlier.score, earlier.decision));
        let tallied = TalliedRow {
            number: read.row.number,
            score: score.as_ref(),
            decision,
        };
        self.tally.count(tallied, before);
        for (place, groups) in self.groups.iter_mut().enumerate() {
            groups.count(layout.value(written(asked(place))).as_bytes(), decision);
        }
        if !self.sandbox && read.request.is_ok() {
            let mut ids = read.row.existing.iter().filter(|(_, column)| *column == 0);
            let is_made_up = |id: Span| layout.value(written(id)).starts_with(ID_PREFIX);
            self.sandbox = ids.any(|(id, _)| is_made_up(*id));
        }
    }
}

/// The score and the decision at these places of a row. A value that is not one counts as none, as do all of a row that
/// cannot be read.
fn verdict_at(
    read: &ReadRow,
    layout: &Layout,
    (score, decision): (Span, Span),
) -> (Option<Score>, Option<Decision>) {
    if read.request.is_err() {
        return (None, None);
    }
    let value = |span| layout.value(read.row.slice(span));
    (
        Score::from_json_number(&value(score)).ok(),
        Decision::of_word(&value(decision)),
    )
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
struct PastVerdicts {
    name: String,
    rows: HashMap<u64, PastRow>,
}

/// A row of the earlier file.
struct PastRow {
    /// `None` without a verdict.
    decision: Option<Decision>,
    /// NaN if it is not known: an `Option` takes twice as much memory.
    score: f64,
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
        let asked = AskedColumns::new(std::slice::from_ref(&against.key), []);
        let (reader, Opened { layout, name, .. }) = open_scored(&against.file, prefix, asked)?;
        let rows = HashMap::default();
        let mut past = Self { name, rows };
        for batch in read_ahead(reader)? {
            for read in batch?.rows {
                let earlier = read.row.earlier;
                let (score, decision) =
                    verdict_at(&read, &layout, (earlier.score, earlier.decision));
                let verdict = past_verdict(score.as_ref(), decision, thresholds);
                let key = read.asked.first().copied().unwrap_or_default();
                past.add(&layout.value(read.row.slice(key)), verdict);
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
                decision: verdict.map(|verdict| verdict.decision),
                score: { verdict.and_then(|verdict| verdict.score) }.unwrap_or(f64::NAN),
                is_ambiguous: false,
                is_found: false,
            });
            row.is_ambiguous |= row.verdict() != verdict;
        }
    }

    /// The verdict before on the row with this key. Also counts whether there is one.
    fn find(&mut self, key: &str, counts: &mut PairingCounts) -> Option<PastVerdict> {
        let Some(row) = self.hash(key).and_then(|hash| self.rows.get_mut(&hash)) else {
            counts.new += 1;
            return None;
        };
        row.is_found = true;
        if row.is_ambiguous {
            counts.ambiguous += 1;
            return None;
        }
        counts.paired += 1;
        row.verdict()
    }
}

impl PastRow {
    fn verdict(&self) -> Option<PastVerdict> {
        Some(PastVerdict {
            decision: self.decision?,
            score: Some(self.score).filter(|score| !score.is_nan()),
        })
    }
}

/// What the page shows of the comparison with an earlier file.
///
/// # Errors
/// Exit code 2: it has no rows, or none of the other file's.
fn against_file(
    against: EarlierFile,
    pairing: &PairingCounts,
    past: &PastVerdicts,
    file: &str,
) -> Result<Comparison> {
    let earlier = &past.name;
    if past.rows.is_empty() {
        let message = format!("{earlier} has no rows to compare with");
        return Err(Error::usage(message));
    }
    if pairing.paired + pairing.ambiguous == 0 && pairing.new > 0 {
        let column = quoted(&against.key);
        let message = format!("no row of {file} is in {earlier}, by the column {column}");
        return Err(Error::usage(message));
    }
    let gone = past.rows.values().filter(|row| !row.is_found);
    Ok(Comparison::File {
        name: name_of(&against.file.input),
        pairing: PairingCounts {
            key: against.key,
            gone: gone.count() as u64,
            ..*pairing
        },
    })
}

/// A file's name without its directory, which has no place in a page that is passed on.
fn name_of(input: &Input) -> String {
    match input {
        Input::File(path) => {
            let name = path.file_name().unwrap_or(path.as_os_str());
            name.to_string_lossy().into_owned()
        }
        Input::Stdin => "standard input".to_owned(),
    }
}

/// Reads the summary of the run that wrote the file.
///
/// # Errors
/// Exit code 2: it cannot be read, or is not a summary.
fn read_summary(path: &Path) -> Result<RunFacts> {
    let mut json = String::new();
    let file = File::open(path);
    let read = file.and_then(|file| file.take(LONGEST_SUMMARY).read_to_string(&mut json));
    read.map_err(|e| Error::usage(format!("cannot read `{}`", path.display())).because(e))?;
    RunFacts::parse(&json).map_err(|why| {
        Error::usage(format!("`{}` is not the summary of a run", path.display()))
            .detail(why)
            .hint("`rescore run --summary FILE` writes one")
    })
}

/// Whether the file has other decisions than its run's summary, as after `rescore decide`.
///
/// # Errors
/// Exit code 2: it is not the summary of the run that wrote the file, as it is about another number of rows.
fn is_redecided(facts: &RunFacts, summary: &Path, tally: &RowTally, file: &str) -> Result<bool> {
    let (written, rows) = (facts.rows(), tally.rows());
    if written != rows {
        return Err(Error::usage(format!(
            "`{}` is about {} rows, but {file} has {}",
            summary.display(),
            grouped(written.into()),
            grouped(rows.into())
        ))
        .hint("give the summary of the run that wrote this file to `--run`"));
    }
    let differs = |decision| facts.decided(decision) != tally.decisions.of(Some(decision));
    Ok(Decision::ALL.into_iter().any(differs))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_found_with_its_verdict_and_others_are_new_or_gone() {
        let (name, rows) = (String::new(), HashMap::default());
        let mut past = PastVerdicts { name, rows };
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
        let mut counts = PairingCounts::default();
        let mut find = |key: &str| past.find(key, &mut counts);
        assert_eq!(find("1"), verdict("1.5", Some(Decision::Block)));
        assert_eq!(find("2"), None);
        // By today's thresholds, as a decision is all that it lacks.
        assert_eq!(find("3"), verdict("9", Some(Decision::Block)));
        assert_eq!(find("4"), verdict("1", Some(Decision::Approve)));
        assert_eq!((find("5"), find("7"), find("")), (None, None, None));
        assert_eq!((counts.paired, counts.ambiguous, counts.new), (4, 1, 2));
        let gone = past.rows.values().filter(|row| !row.is_found);
        assert_eq!((past.rows.len(), gone.count()), (6, 1));
    }
}
