//! Runs the command: reads each input as the run would, and counts its rows in place of calling.

use std::collections::HashSet;

use super::super::files::refuse_outdated;
use super::super::inputs::{no_rows, path_of, read_ahead};
use super::super::lookup::LookupStage;
use super::super::run::{Files, RunPart, Turn, in_a_line, ledger_account};
use super::super::signals::Interrupts;
use super::super::text::print;
use super::result::{CallCost, CheckResult, CheckedFile, CheckedLedger};
use crate::base::error::{Exit, Result, printable, shown};
use crate::config::CheckConfig;
use crate::ledger::{KnownOutcome, LedgerSettings, Lookup, RequestHasher, preview};
use crate::observe::{tell_error, warn};
use crate::row_state::{RowBatch, RowState};
use crate::telemetry::event::PassedOver;

/// Checks the inputs, and prints what a run over them would do.
///
/// # Errors
/// Exit code 2: the input or the ledger cannot be used. Exit code 3: standard output cannot be written.
pub(crate) fn execute(config: &CheckConfig) -> Result<Exit> {
    let mut files = Files::find(config.files.clone(), config.ledger.reuse)?;
    let is_several = files.only().is_none();
    let is_sandbox = { config.account.as_ref() }.is_some_and(|account| account.sandbox);
    let settings = LedgerSettings {
        account: config.account.as_ref().map(ledger_account),
        ..files.ledger_settings(&config.ledger, is_sandbox, &config.captured)
    };
    // Its thread lives as long as the process; there are no files to remove.
    drop(Interrupts::listen()?);
    let (lookup, ledger) = look_at(&settings, config)?;
    let mut pass = Pass {
        lookup,
        calls: HashSet::new(),
        result: CheckResult::new(ledger),
    };
    // If an input cannot be read, the pass says so as well.
    pass.result.sends_nothing = files.refuse_broken(config.limits).err();
    files.read(config.plan)?;
    for part in files.parts {
        let mut file = CheckedFile::of(&part.input);
        if let Err(error) = pass.part(part, &mut file) {
            // This is no reason not to look at the others, as in a run.
            if !is_several {
                return Err(error);
            }
            tell_error(&error);
            file.error = Some(in_a_line(&error));
        }
        pass.result.total.add(&file.counts);
        pass.result.files.push(file);
    }
    let (mut result, calls) = (pass.result, pass.calls.len() as u64);
    result.calls = calls;
    result.cost = { config.tariff.clone() }.map(|tariff| CallCost::new(tariff, calls));
    let exit = match result.total.rows.unsendable {
        _ if result.files.iter().any(|file| file.error.is_some()) => Exit::Usage,
        0 => Exit::Complete,
        _ => Exit::SomeFailed,
    };
    result.exit_code = exit.code();
    print(&if config.json {
        result.json()
    } else {
        result.text()
    })?;
    // On a terminal, both streams are read as one text.
    for warning in result.warnings() {
        warn(&printable(&warning));
    }
    Ok(exit)
}

/// A pass over one input after the other.
struct Pass {
    lookup: LookupStage,
    /// The fingerprints of the requests that would be sent: 16 to 32 bytes for each. Two of ten million share one with a
    /// chance below one in 300,000, and the count would then be too low by one call.
    calls: HashSet<i64>,
    /// What was counted so far.
    result: CheckResult,
}

impl Pass {
    /// Counts the rows of an input, unless its output is finished.
    ///
    /// # Errors
    /// The input or the ledger cannot be read to its end.
    fn part(&mut self, part: RunPart, file: &mut CheckedFile) -> Result<()> {
        let open = match (part.turn, &part.output) {
            (Turn::Run(open), _) => open,
            (Turn::Unusable(error), _) => return Err(error),
            (_, Some(output)) => {
                file.finished = true;
                return refuse_outdated(path_of(&part.input), output, false);
            }
            _ => return Ok(()),
        };
        let (reader, opened) = open.open_input(&part.input)?;
        file.mapping.clone_from(&opened.mapping);
        for batch in read_ahead(reader)? {
            self.count(file, batch?)?;
        }
        let warning = no_rows(&file.name, file.counts.rows.read);
        self.result.input_warnings.extend(warning);
        Ok(())
    }

    fn count(&mut self, file: &mut CheckedFile, mut batch: RowBatch) -> Result<()> {
        self.lookup.look_up(&mut batch.rows)?;
        let counts = &mut file.counts;
        counts.rows.dropped += batch.dropped;
        for row in &batch.rows {
            counts.rows.read += 1;
            if let Some(failure) = row.state.failure() {
                counts.rows.unsendable += 1;
                let named = file.unsendable.entry(failure.reason).or_default();
                named.count(row.number);
            }
            let RowState::Waiting { key, found, .. } = &row.state else {
                continue;
            };
            counts.rows.sendable += 1;
            match found.passed_over {
                Some(PassedOver::Damaged) => self.result.ledger_answers_damaged += 1,
                Some(PassedOver::TooOld) => self.result.ledger_answers_too_old += 1,
                Some(PassedOver::Failed) | None => {}
            }
            match found.known {
                Some(KnownOutcome::Answer(_)) => counts.known += 1,
                Some(KnownOutcome::Failure(_)) => counts.failed_before += 1,
                None if self.calls.insert(key.fingerprint()) => {}
                None => self.result.duplicates += 1,
            }
        }
        Ok(())
    }
}

/// Opens the ledger, if there is one to look at: what looks rows up in it, and what a run would learn of it.
///
/// # Errors
/// Exit code 2: it cannot be used.
fn look_at(
    settings: &LedgerSettings,
    config: &CheckConfig,
) -> Result<(LookupStage, Option<CheckedLedger>)> {
    // The run makes the directory of its outputs, with the ledger.
    let directory = { config.files.directory.as_ref() }.filter(|directory| !directory.exists());
    let is_made = config.ledger.named.is_none() && directory.is_some();
    let found = if is_made { None } else { preview(settings)? };
    let (lookup, endpoint, facts) = if let Some((lookup, found)) = found {
        let stage = LookupStage::new(found.hasher.clone(), lookup);
        (stage, found.endpoint.clone(), Some(found))
    } else {
        let stage = LookupStage::new(RequestHasher::of_pass(), Lookup::nowhere());
        (stage, None, None)
    };
    let ledger = settings.location.path().map(|path| CheckedLedger {
        path: shown(&path),
        endpoint,
        facts,
    });
    Ok((lookup, ledger))
}
