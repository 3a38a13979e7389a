//! `rescore report`: a scored file in, a page of HTML out. Nothing here touches the network.
//!
//! The earlier file is read first, if there is one, and its verdicts are kept by their key; then the scored file is read once
//! and counted, and `report` makes the page.

use std::path::Path;

use super::files::refuse_clashes;
use super::inputs::{
    open_scored, outcome_of, read_ahead, read_past, read_summary, refuse_other_run, value_of,
    verdict_of, warn_if_empty,
};
use super::signals::StopSignals;
use crate::analysis::{GroupTally, PastVerdicts, RowTally, WhatIf};
use crate::base::error::{Error, Exit, Result};
use crate::base::private_file::Readers;
use crate::base::text::{display, quoted};
use crate::config::{AskedThresholds, EarlierFile, ReportConfig};
use crate::fields;
use crate::input::{Input, refuse_missing};
use crate::observe::{ReportedRun, counted, stamp, tell};
use crate::output::{Document, OutputFile, Replace, Target};
use crate::report::{Comparison, PageContent, ShownThresholds, page};
use crate::row_state::RowState;
use crate::sandbox::ID_PREFIX;
use crate::verdict::{Decision, Thresholds};

/// How many values of a column a page shows.
const TOP: usize = 20;

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
    let summary = config.asked.run.clone().map(Input::File);
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
    let (asked_for, today) = (&config.asked, Some(&config.asked.today));
    let outcome = asked_for.outcome.as_ref();
    let run = asked_for.run.as_deref().map(read_summary).transpose()?;
    // These columns are asked for first, then that of the outcomes, then the key.
    let column = outcome.map(|outcome| outcome.column.clone());
    let key = config.against.iter().map(|against| against.key.clone());
    let columns = config.by.iter().cloned().chain(column).chain(key).collect();
    // Opened first, as it fails at its first line if it is not a scored file, and the earlier one only after being read.
    let (reader, opened) = open_scored(&config.scored, &config.prefix, columns)?;
    let (layout, name) = (&opened.layout, &opened.name);
    let against = config.against.as_ref();
    let past = against.map(|it| read_past(&it.file, &config.prefix, &it.key, today));
    let mut past = past.transpose()?;
    let mut tally = RowTally::new(today);
    let mut groups = vec![GroupTally::default(); config.by.len()];
    let (of_outcome, of_key) = (groups.len(), groups.len() + usize::from(outcome.is_some()));
    let mut sandbox = run.as_ref().is_some_and(|run| run.sandbox);
    for batch in read_ahead(reader)? {
        for row in &batch?.rows {
            let value = |index| value_of(row, layout, index);
            let before = past
                .as_mut()
                .and_then(|(past, _)| past.find(&value(of_key)));
            let (score, decision) = verdict_of(row, layout);
            let known = outcome.map(|is_bad| outcome_of(&value(of_outcome), is_bad));
            let known = known.unwrap_or_default();
            tally.count(score.as_ref(), decision, before.as_ref(), known);
            for (place, group) in groups.iter_mut().enumerate() {
                group.count(value(place).as_bytes(), decision);
            }
            if !sandbox && matches!(row.state, RowState::Scored(_)) {
                let id = layout.value(row.raw.slice(row.raw.value_of(0)));
                sandbox = id.starts_with(ID_PREFIX);
            }
        }
    }
    warn_if_empty(name, tally.rows());
    let comparison = comparison(against.zip(past), name)?;
    let redecided = run.as_ref().map(|run| is_redecided(run, &mut tally, name));
    let redecided = redecided.transpose()?.unwrap_or(false);
    for (column, group) in config.by.iter().zip(&groups) {
        refuse_personal(column, group, run.as_ref())?;
    }
    let groups = config.by.iter().zip(groups);
    let groups = groups.map(|(column, groups)| (column.clone(), groups.top(TOP)));
    let content = PageContent {
        file: name_of(&config.scored.input),
        made: stamp(),
        sandbox,
        thresholds: shown_thresholds(asked_for, &mut tally),
        tally,
        comparison,
        groups: groups.collect(),
        run,
        redecided,
    };
    Ok((content, opened.readers))
}

/// Whether the file has other decisions than its run's summary, as after `rescore decide`. If levels decided, no
/// thresholds are shown.
///
/// # Errors
/// Exit code 2: it is not the summary of the run that wrote the file.
fn is_redecided(run: &ReportedRun, tally: &mut RowTally, file: &str) -> Result<bool> {
    refuse_other_run(run, tally.rows(), file)?;
    let differs = |decision| run.counts.decisions.of(decision) != tally.decisions.of(decision);
    let is_redecided = Decision::ALL.into_iter().map(Some).any(differs);
    if !is_redecided && run.levels.is_some() {
        tally.what_if = None;
    }
    Ok(is_redecided)
}

/// What the page shows of thresholds. If others have decided than those that were given, they are read from the rows, and the
/// given ones are shown by whom they would concern.
fn shown_thresholds(asked: &AskedThresholds, tally: &mut RowTally) -> ShownThresholds {
    let are_read = tally.what_if.as_mut().is_some_and(WhatIf::read_thresholds);
    let is_candidate = are_read && asked.today != Thresholds::default();
    ShownThresholds {
        outcome: asked.outcome.as_ref().map(|outcome| outcome.column.clone()),
        catch: asked.catch,
        candidate: is_candidate.then(|| asked.today.clone()),
        are_read,
    }
}

/// The comparison with the earlier file and its verdicts, if there is one.
///
/// # Errors
/// Exit code 2: it has none of the other file's rows.
fn comparison(
    with: Option<(&EarlierFile, (PastVerdicts, String))>,
    file: &str,
) -> Result<Option<Comparison>> {
    let Some((against, (past, earlier))) = with else {
        return Ok(None);
    };
    let pairing = past.pairing(&against.key);
    if pairing.paired + pairing.ambiguous == 0 && pairing.new > 0 {
        let column = quoted(&against.key);
        let message = format!("no row of {file} is in {earlier}, by the column {column}");
        return Err(Error::usage(message));
    }
    let name = name_of(&against.file.input);
    Ok(Some(Comparison::File { name, pairing }))
}

/// A file's name without its directory, which has no place in a page that is passed on.
fn name_of(input: &Input) -> String {
    let name = input.path().and_then(Path::file_name);
    name.map_or_else(
        || input.display(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// Fails if a column names users rather than groups of them.
///
/// # Errors
/// Exit code 2: it is a field of users, or has more than a hundred values.
fn refuse_personal(column: &str, groups: &GroupTally, run: Option<&ReportedRun>) -> Result<()> {
    let name = quoted(column);
    let is_field = fields::rank(column.rsplit('/').next().unwrap_or(column)).is_some();
    let mapping = run.and_then(|run| run.mapping.as_deref());
    let why = if is_field || mapping.is_some_and(|mapping| mapping.contains(&name)) {
        "it is a field of each user"
    } else if groups.has_too_many() {
        "it has more than 100 different values"
    } else {
        return Ok(());
    };
    Err(
        Error::usage(format!("`--by` cannot show the column {name}: {why}"))
            .hint("choose a column of groups, such as the country"),
    )
}
