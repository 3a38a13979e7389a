//! Whether the input is whole and its rows can be sent, as far as the user says what to expect (`--min-rows`,
//! `--max-invalid`): a broken export must neither be scored in part nor replace yesterday's output.
//!
//! A file is read once more before everything else, so that nothing is sent. A stream can be read only once: its first rows
//! are held back until there are enough, and the others are counted on the reader's thread as they come.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU64;

use crate::base::error::{Error, Result};
use crate::base::tolerance::Tolerance;
use crate::config::InputLimits;
use crate::engine::{Read, Stop};
use crate::input::{Compose, Input, Reader, ReaderSettings, RowBatch};
use crate::observe::{count, counted, tell};
use crate::selection::Selection;
use crate::telemetry::event::{CancelReason, InputEnd};
use crate::verdict::{Reason, most_frequent};

/// A share counts from this many rows, unless there are no more: the first row of a stream may be its worst.
const ROWS_OF_A_SHARE: u64 = 100;
/// How many bytes of rows of a stream are held back at most: some hundred thousand rows.
const HELD: usize = 64 * 1024 * 1024;
/// From this size in bytes on, reading all rows takes long enough that people wonder.
const SLOW: u64 = 64 * 1024 * 1024;

/// Counts the rows of an input, and knows when it is broken. By default it checks nothing.
#[derive(Debug, Default)]
pub(super) struct InputCheck {
    /// What is still to be checked.
    limits: InputLimits,
    /// The input's name in sentences.
    name: String,
    /// Whether it is several files.
    several: bool,
    rows: u64,
    unsendable: BTreeMap<Reason, u64>,
    /// Batches that were held back, and will come again.
    held: usize,
}

impl InputCheck {
    /// Checks files, with all their rows together. The rows of a stream are still to be checked, as they are read.
    ///
    /// # Errors
    /// Exit code 2: the input is broken, or cannot be read.
    pub(super) fn new(
        limits: InputLimits,
        inputs: &[ReaderSettings],
        shows_text: bool,
    ) -> Result<Self> {
        if limits == InputLimits::default() {
            return Ok(Self::default());
        }
        let check = Self {
            limits,
            name: name(inputs),
            several: inputs.len() > 1,
            rows: 0,
            unsendable: BTreeMap::new(),
            held: 0,
        };
        let sizes: Vec<_> = inputs.iter().filter_map(size).collect();
        if sizes.is_empty() {
            return Ok(check);
        }
        let is_slow = limits.max_invalid.is_some() && sizes.iter().sum::<u64>() >= SLOW;
        if shows_text && is_slow {
            tell("rescore: checking all rows before anything is sent");
        }
        check.pass(inputs)?;
        Ok(Self::default())
    }

    /// Reads files as far as needed.
    fn pass(mut self, inputs: &[ReaderSettings]) -> Result<()> {
        for input in inputs.iter().filter(|input| size(input).is_some()) {
            match self.read(input) {
                Ok(()) => {}
                // The run reports a file that cannot be read, and continues with the others.
                Err(_) if self.several => {}
                Err(error) => return Err(error),
            }
            if self.knows_enough() {
                return Ok(());
            }
        }
        self.at_end(InputEnd::Whole).map_err(nothing_sent)
    }

    /// Reads a file to its end, or until enough is known.
    fn read(&mut self, input: &ReaderSettings) -> Result<()> {
        let all = ReaderSettings {
            selection: Selection::default(),
            ..input.clone()
        };
        let (mut reader, _) = Reader::open(all, Compose::new(|_, _| {}))?;
        while let Some(batch) = reader.next_batch()? {
            self.count(&batch);
            if self.knows_enough() {
                break;
            }
        }
        Ok(())
    }

    /// Whether no further row can make a difference.
    fn knows_enough(&self) -> bool {
        let has_enough = |least: NonZeroU64| self.rows >= least.get();
        self.limits.max_invalid.is_none() && self.limits.min_rows.is_none_or(has_enough)
    }

    /// Reads a stream ahead until it has as many rows as it must have, so that none is sent before.
    ///
    /// # Errors
    /// Exit code 2: the stream is broken, or cannot be read.
    pub(super) fn hold_back(&mut self, reader: &mut Reader) -> Result<()> {
        let Some(least) = self.limits.min_rows else {
            return Ok(());
        };
        let mut bytes = 0;
        let continues = reader.read_ahead(|batch| {
            self.count(batch);
            self.so_far().map_err(nothing_sent)?;
            self.held += 1;
            bytes += batch
                .rows
                .iter()
                .map(|row| row.row.raw.len())
                .sum::<usize>();
            Ok(self.rows >= least.get() || bytes >= HELD)
        })?;
        if continues {
            return Ok(());
        }
        self.at_end(reader.end()).map_err(nothing_sent)
    }

    /// Checks the next rows of a stream.
    ///
    /// # Errors
    /// The run must stop.
    pub(super) fn next(&mut self, batch: &RowBatch) -> Result<(), Stop> {
        if self.limits == InputLimits::default() {
            return Ok(());
        }
        if self.held > 0 {
            self.held -= 1;
            return Ok(());
        }
        self.count(batch);
        self.so_far()
    }

    /// Checks the end of a stream, and says what follows.
    pub(super) fn end(&self, end: InputEnd) -> Read {
        match self.at_end(end) {
            Ok(()) => Read::End(end),
            Err(stop) => Read::Failed(stop),
        }
    }

    fn count(&mut self, batch: &RowBatch) {
        self.rows += batch.rows.len() as u64;
        let failures = batch
            .rows
            .iter()
            .filter_map(|row| row.request.as_ref().err());
        for failure in failures {
            *self.unsendable.entry(failure.reason).or_default() += 1;
        }
    }

    /// What is known before the end.
    fn so_far(&self) -> Result<(), Stop> {
        match self.limits.max_invalid {
            Some(Tolerance::Percent(_)) if self.rows < ROWS_OF_A_SHARE => Ok(()),
            most => self.refuse_invalid(most, "first "),
        }
    }

    /// What is known at the end. A part of a stream says nothing about its length.
    pub(super) fn at_end(&self, end: InputEnd) -> Result<(), Stop> {
        self.refuse_invalid(self.limits.max_invalid, "")?;
        match self.limits.min_rows {
            Some(least) if self.rows < least.get() && end == InputEnd::Whole => {
                Err(Stop::new(CancelReason::MinRows, self.too_few(least)))
            }
            _ => Ok(()),
        }
    }

    fn refuse_invalid(&self, most: Option<Tolerance>, which: &str) -> Result<(), Stop> {
        let invalid = self.unsendable.values().sum();
        match most.filter(|most| !most.covers(invalid, self.rows)) {
            Some(most) => {
                let error = self.too_many_invalid(invalid, which, most);
                Err(Stop::new(CancelReason::MaxInvalid, error))
            }
            None => Ok(()),
        }
    }

    fn too_few(&self, least: NonZeroU64) -> Error {
        Error::usage(format!(
            "{} {} {}, fewer than `--min-rows {least}`",
            self.name,
            if self.several { "have" } else { "has" },
            counted(self.rows, "row")
        ))
        .hint("check that the export is complete, or lower `--min-rows`")
    }

    fn too_many_invalid(&self, invalid: u64, which: &str, most: Tolerance) -> Error {
        Error::usage(format!(
            "{} of the {which}{} of {} cannot be sent, more than `--max-invalid {most}` allows",
            count(invalid),
            counted(self.rows, "row"),
            self.name
        ))
        .detail(format!("most frequent: {}", most_frequent(&self.unsendable)))
        .hint("`rescore check` names these rows and what may help; `--max-invalid` sets how many are allowed")
    }
}

/// The error for an input that is refused before the first call.
fn nothing_sent(stop: Stop) -> Error {
    let error = stop.error.unwrap_or_else(|| Error::usage("broken input"));
    error.detail("nothing was sent")
}

/// The name of the input in a sentence.
fn name(inputs: &[ReaderSettings]) -> String {
    match inputs {
        [input] => match &input.file.input {
            input @ Input::File(_) => format!("`{}`", input.shown()),
            input @ Input::Stdin => input.shown(),
        },
        _ => format!("the {} inputs", inputs.len()),
    }
}

/// The size of an input that can be read twice; `None` for a stream.
pub(super) fn size(input: &ReaderSettings) -> Option<u64> {
    let Input::File(path) = &input.file.input else {
        return None;
    };
    // If it cannot be looked at, opening it says why.
    let metadata = fs::metadata(path).ok()?;
    metadata.is_file().then_some(metadata.len())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// What is wrong with these three files: 4 rows, 6 rows of which one has no name, and none that could be read.
    fn judged(min_rows: u64, max_invalid: Option<Tolerance>) -> Option<String> {
        let place = tempfile::tempdir().unwrap();
        let header = "name,email,ip,user_agent\n";
        let row = "Jo,jo@example.com,::1,curl\n";
        let files = [
            ("a.csv", format!("{header}{}", row.repeat(4))),
            (
                "b.csv",
                format!("{header}{},jo@example.com,::1,curl\n", row.repeat(5)),
            ),
            ("c.csv", "[1]".to_owned()),
        ];
        let inputs = files.map(|(name, content)| {
            fs::write(place.path().join(name), content).unwrap();
            ReaderSettings::without_options(Input::File(place.path().join(name)))
        });
        let limits = InputLimits {
            min_rows: NonZeroU64::new(min_rows),
            max_invalid,
        };
        match InputCheck::new(limits, &inputs, false) {
            Ok(check) => {
                assert_eq!(check.limits, InputLimits::default(), "nothing is left");
                None
            }
            Err(error) => Some(error.to_string()),
        }
    }

    #[test]
    fn several_files_are_counted_together() {
        assert_eq!(judged(10, None), None);
        assert_eq!(
            judged(11, None).as_deref(),
            Some("the 3 inputs have 10 rows, fewer than `--min-rows 11`")
        );
        assert_eq!(judged(0, Some(Tolerance::Percent(10.0))), None);
        assert_eq!(
            judged(1, Some(Tolerance::Percent(9.9))).as_deref(),
            Some(
                "1 of the 10 rows of the 3 inputs cannot be sent, more than `--max-invalid 9.9%` allows"
            )
        );
    }
}
