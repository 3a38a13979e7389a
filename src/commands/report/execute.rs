//! Runs the command, from the files to the page.

use std::path::Path;
use std::time::SystemTime;

use super::super::files::{NamedFile, refuse_clashes};
use super::super::interrupt::Interrupts;
use super::super::open_input::bytes_ignored;
use super::count::{CountedFile, ScoredFile};
use super::past::PastVerdicts;
use super::summary;
use crate::base::error::{Error, Exit, Result, shown};
use crate::config::{EarlierFile, ReportConfig};
use crate::input::{Input, OpenedScored};
use crate::observe::{count, counted, stamp, tell, warn};
use crate::output::{Document, OutputFile, Replace, Target};
use crate::report::{ColumnGroups, Comparison, PageContent, PairingCounts, RunFacts, page};

/// How many values of a column a page shows.
const TOP: usize = 20;

/// Makes the page.
///
/// # Errors
/// Exit code 2: a file cannot be read, does not have the columns, or may not be written. Exit code 3: the page cannot be
/// written.
pub(crate) fn execute(config: ReportConfig) -> Result<Exit> {
    refuse_overwriting(&config)?;
    let interrupts = Interrupts::listen()?;
    let replace = |_: &Path| {
        if config.overwrite {
            Replace::Whole
        } else {
            Replace::Nothing
        }
    };
    let target = { config.output.as_deref() }.map(|path| Target::new(path, replace));
    let target = target.transpose()?;
    let facts = config.summary.as_deref().map(summary::read).transpose()?;
    // Opened first, as it fails at its first line if it is not a scored file, and the earlier one only after being read.
    let key = { config.against.as_ref() }.and_then(|against| against.key.as_ref());
    let (file, opened) = ScoredFile::open(&config.scored, &config.prefix, &config.by, key)?;
    let mode = opened.mode;
    let report = read(config, file, &opened, facts)?;
    let output = match &target {
        Some(target) => interrupts.opening(target.partial(), || target.open(mode))?,
        None => OutputFile::stdout()?,
    };
    let written = Document::new(output).complete(&page(&report))?;
    if let Some(path) = written {
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
fn read(
    config: ReportConfig,
    file: ScoredFile,
    opened: &OpenedScored,
    run: Option<RunFacts>,
) -> Result<PageContent> {
    let thresholds = &config.thresholds;
    let earlier = { config.against.as_ref() }
        .map(|against| PastVerdicts::read(against, &config.prefix, thresholds))
        .transpose()?;
    let (mut past, earlier) = earlier.unzip();
    let CountedFile {
        mut tally,
        groups,
        pairing,
        sandbox,
    } = file.count(thresholds, past.as_mut())?;
    let comparison = match (config.against, past, earlier) {
        (Some(against), Some(past), Some(earlier)) => {
            Some(against_file(against, &pairing, &past, (opened, &earlier))?)
        }
        _ => (tally.drift.decisions.compared() > 0).then_some(Comparison::Own),
    };
    let redecided = match (&run, &config.summary) {
        (Some(facts), Some(path)) => summary::compare(facts, path, &tally, &opened.name)?,
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
    Ok(PageContent {
        file: name_of(&config.scored.input),
        made: stamp(SystemTime::now()),
        sandbox: sandbox || run.as_ref().is_some_and(|run| run.sandbox),
        tally,
        comparison,
        groups: { config.by.into_iter().zip(groups) }
            .map(|(column, groups)| ColumnGroups {
                column,
                values: groups.top(TOP),
            })
            .collect(),
        run,
        redecided,
    })
}

/// What the page shows of the comparison with an earlier file.
///
/// # Errors
/// Exit code 2: it has no rows, or none of the other file's.
fn against_file(
    against: EarlierFile,
    pairing: &PairingCounts,
    past: &PastVerdicts,
    (opened, earlier): (&OpenedScored, &OpenedScored),
) -> Result<Comparison> {
    const HINT: &str = "`--key COLUMN` pairs rows by one column, such as an id";
    let found = pairing.paired + pairing.ambiguous;
    let rows = found + pairing.new;
    let by_all = against.key.is_none();
    if past.rows() == 0 {
        let message = format!("{} has no rows to compare with", earlier.name);
        return Err(Error::usage(message));
    }
    if found == 0 && rows > 0 {
        let by = match &against.key {
            Some(key) => format!("the column {}", crate::base::error::quoted(key)),
            None => "all columns but the verdict's".to_owned(),
        };
        let message = format!("no row of {} is in {}, by {by}", opened.name, earlier.name);
        let error = Error::usage(message);
        return Err(if by_all { error.hint(HINT) } else { error });
    }
    if by_all && found * 2 < rows {
        warn(&format!(
            "only {} of {} are in {}, by all columns but the verdict's; {HINT}",
            count(found),
            counted(rows, "row"),
            earlier.name
        ));
    }
    Ok(Comparison::File {
        name: name_of(&against.file.input),
        pairing: PairingCounts {
            key: against.key,
            gone: past.gone(),
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
