//! Whether the input is whole and its rows can be sent, as far as the user says what to expect (`--min-rows`,
//! `--max-invalid`): a broken export must neither be scored in part nor replace yesterday's output.
//!
//! The files are read once more before everything else, so that nothing is sent. A stream can be read only once and cannot
//! be checked so.

use std::collections::BTreeMap;
use std::fs;

use crate::base::error::{Error, Result};
use crate::config::InputLimits;
use crate::input::{Compose, Input, Reader, ReaderSettings};
use crate::observe::{count, counted, tell};
use crate::selection::Selection;
use crate::verdict::{Reason, most_frequent};

/// From this size in bytes on, reading all rows takes long enough that people wonder.
const SLOW: u64 = 64 * 1024 * 1024;

/// Reads the inputs, with all their rows together, as far as needed to see that they are as they must be.
///
/// # Errors
/// Exit code 2: they are not, or the only input cannot be read, or is a stream.
pub(super) fn refuse_broken(
    limits: InputLimits,
    inputs: &[ReaderSettings],
    shows_text: bool,
) -> Result<()> {
    if limits == InputLimits::default() {
        return Ok(());
    }
    let is_several = inputs.len() > 1;
    let sizes: Vec<_> = inputs.iter().filter_map(size).collect();
    if inputs.iter().any(is_stream) && !is_several {
        return Err(needs_a_file(limits));
    }
    if sizes.is_empty() {
        // Opening them says why.
        return Ok(());
    }
    let is_slow = limits.max_invalid.is_some() && sizes.iter().sum::<u64>() >= SLOW;
    if shows_text && is_slow {
        tell("rescore: checking all rows before anything is sent");
    }
    let mut found = InputRows::default();
    for input in inputs.iter().filter(|input| size(input).is_some()) {
        match found.read(input, limits) {
            // The run reports a file that cannot be read, and continues with the others.
            Err(error) if !is_several => return Err(error),
            _ => {}
        }
        if found.are_enough(limits) {
            return Ok(());
        }
    }
    let checked = found.refuse_by(limits, &name(inputs), is_several);
    checked.map_err(|error| error.detail("nothing was sent"))
}

/// The rows of the inputs.
#[derive(Default)]
struct InputRows {
    rows: u64,
    unsendable: BTreeMap<Reason, u64>,
}

impl InputRows {
    /// Reads a file to its end, or until enough is known.
    fn read(&mut self, input: &ReaderSettings, limits: InputLimits) -> Result<()> {
        let all = ReaderSettings {
            selection: Selection::default(),
            ..input.clone()
        };
        let (mut reader, _) = Reader::open(all, Compose::new(|_, _| {}))?;
        while let Some(batch) = reader.next_batch()? {
            self.rows += batch.rows.len() as u64;
            for failure in batch.rows.iter().filter_map(|row| row.state.failure()) {
                *self.unsendable.entry(failure.reason).or_default() += 1;
            }
            if self.are_enough(limits) {
                break;
            }
        }
        Ok(())
    }

    /// Whether no further row can make a difference.
    fn are_enough(&self, limits: InputLimits) -> bool {
        let has_enough = limits.min_rows.is_none_or(|least| self.rows >= least.get());
        limits.max_invalid.is_none() && has_enough
    }

    fn refuse_by(&self, limits: InputLimits, name: &str, is_several: bool) -> Result<()> {
        let rows = counted(self.rows, "row");
        let invalid = self.unsendable.values().sum();
        if let Some(most) = { limits.max_invalid }.filter(|most| !most.covers(invalid, self.rows)) {
            return Err(Error::usage(format!(
                "{} of the {rows} of {name} cannot be sent, more than `--max-invalid {most}` allows",
                count(invalid),
            ))
            .detail(format!("most frequent: {}", most_frequent(&self.unsendable)))
            .hint("`rescore check` names these rows and what may help; `--max-invalid` sets how many are allowed"));
        }
        match limits.min_rows {
            Some(least) if self.rows < least.get() => Err(Error::usage(format!(
                "{name} {} {rows}, fewer than `--min-rows {least}`",
                if is_several { "have" } else { "has" },
            ))
            .hint("check that the export is complete, or lower `--min-rows`")),
            _ => Ok(()),
        }
    }
}

fn needs_a_file(limits: InputLimits) -> Error {
    let option = match limits.min_rows {
        Some(_) => "--min-rows",
        None => "--max-invalid",
    };
    Error::usage(format!(
        "`{option}` needs a file: the rows of a stream cannot be counted before the first call"
    ))
    .hint("write the rows to a file first")
}

/// The name of the input in a sentence.
fn name(inputs: &[ReaderSettings]) -> String {
    match inputs {
        [input] => format!("`{}`", input.file.input.shown()),
        _ => format!("the {} inputs", inputs.len()),
    }
}

/// The size of an input that can be read twice; `None` for a stream.
fn size(input: &ReaderSettings) -> Option<u64> {
    let Input::File(path) = &input.file.input else {
        return None;
    };
    let metadata = fs::metadata(path).ok()?;
    metadata.is_file().then_some(metadata.len())
}

fn is_stream(input: &ReaderSettings) -> bool {
    match &input.file.input {
        Input::File(path) => {
            fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
        }
        Input::Stdin => true,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::base::tolerance::Tolerance;

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
        let checked = refuse_broken(limits, &inputs, false);
        checked.err().map(|error| error.to_string())
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
