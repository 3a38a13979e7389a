//! `rescore report`: a scored file in, a page of HTML out. Nothing here touches the network.
//!
//! The earlier file is read first, if there is one, and its verdicts are kept by their key; then the scored file is read once
//! and counted, and `report` makes the page.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::files::refuse_clashes;
use super::inputs::{asked, open_scored, read_ahead, read_past, verdict_of, warn_if_empty};
use super::signals::StopSignals;
use crate::analysis::{GroupTally, PastVerdicts, RowTally};
use crate::base::error::{Error, Exit, Result};
use crate::base::private_file::Readers;
use crate::base::text::{display, quoted};
use crate::config::{EarlierFile, ReportConfig};
use crate::input::{Input, refuse_missing};
use crate::observe::{ReportedRun, count, counted, stamp, tell};
use crate::output::{Document, OutputFile, Replace, Target};
use crate::report::{Comparison, PageContent, page};
use crate::row_state::RowState;
use crate::sandbox::ID_PREFIX;
use crate::verdict::Decision;

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
    let signals = StopSignals::start(false)?;
    let replace = Replace::by(config.overwrite);
    let output = config.output.as_deref();
    let target = output.map(|path| Target::new(path, replace)).transpose()?;
    let (content, readers) = count_rows(config)?;
    let output = match &target {
        Some(target) => signals.open(target, readers)?,
        None => OutputFile::stdout(),
    };
    if let Some(path) = Document::new(output).complete(&page(&content), |_| {})? {
        let (path, rows) = (display(&path), counted(content.tally.rows(), "row"));
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

/// Reads the scored file and the earlier one. Returns the content of the page, and who may read it.
///
/// # Errors
/// Exit code 2: a file cannot be read, the earlier file has no rows or none of this one's, or the summary is about another
/// file.
fn count_rows(config: &ReportConfig) -> Result<(PageContent, Readers)> {
    let run = config.summary.as_deref().map(read_summary).transpose()?;
    // These columns are asked for first, then the key.
    let key = config.against.iter().map(|against| against.key.clone());
    let columns = config.by.iter().cloned().chain(key).collect();
    // Opened first, as it fails at its first line if it is not a scored file, and the earlier one only after being read.
    let (reader, opened) = open_scored(&config.scored, &config.prefix, columns)?;
    let (layout, name) = (&opened.layout, &opened.name);
    let thresholds = Some(&config.thresholds);
    let against = config.against.as_ref();
    let past = against.map(|it| read_past(&it.file, &config.prefix, &it.key, thresholds));
    let mut past = past.transpose()?;
    let mut tally = RowTally::new(thresholds);
    let mut groups = vec![GroupTally::default(); config.by.len()];
    let mut sandbox = run.as_ref().is_some_and(|run| run.sandbox);
    for batch in read_ahead(reader)? {
        for row in &batch?.rows {
            let before = past
                .as_mut()
                .and_then(|(past, _)| past.find(&asked(row, layout, groups.len())));
            let (score, decision) = verdict_of(row, layout);
            tally.count(score.as_ref(), decision, before.as_ref());
            for (place, group) in groups.iter_mut().enumerate() {
                group.count(asked(row, layout, place).as_bytes(), decision);
            }
            if !sandbox && matches!(row.state, RowState::Scored(_)) {
                let id = layout.value(row.raw.slice(row.raw.value_of(0)));
                sandbox = id.starts_with(ID_PREFIX);
            }
        }
    }
    warn_if_empty(name, tally.rows());
    let comparison = match against.zip(past) {
        Some((against, (past, earlier))) => Some(comparison(past, &earlier, against, name)?),
        None => None,
    };
    let redecided = match (&run, &config.summary) {
        (Some(run), Some(path)) => is_redecided(run, path, &tally, name)?,
        _ => false,
    };
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
    Ok((content, opened.readers))
}

/// The comparison with the earlier file of this name.
///
/// # Errors
/// Exit code 2: it has no rows, or none of the other file's.
fn comparison(
    past: PastVerdicts,
    earlier: &str,
    against: &EarlierFile,
    file: &str,
) -> Result<Comparison> {
    let pairing = past.pairing(&against.key);
    let message = match (
        pairing.paired + pairing.ambiguous,
        pairing.gone,
        pairing.new,
    ) {
        (0, 0, _) => format!("{earlier} has no rows to compare with"),
        (0, _, 1..) => {
            let column = quoted(&against.key);
            format!("no row of {file} is in {earlier}, by the column {column}")
        }
        _ => {
            return Ok(Comparison::File {
                name: name_of(&against.file.input),
                pairing,
            });
        }
    };
    Err(Error::usage(message))
}

/// A file's name without its directory, which has no place in a page that is passed on.
fn name_of(input: &Input) -> String {
    let name = input.path().and_then(Path::file_name);
    name.map_or_else(
        || input.display(),
        |name| name.to_string_lossy().into_owned(),
    )
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
