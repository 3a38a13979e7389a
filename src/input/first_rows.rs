//! Whether the first rows all fail for the same reason before any can be sent: then the file or a
//! setting is wrong, and not the rows.

use crate::base::error::Error;
use crate::verdict::{Failure, Reason};

/// How many rows are checked: so many do not share a fault by chance.
const ROWS: u32 = 100;

/// The rows before the first valid one, as long as all fail for the same reason.
#[derive(Debug)]
pub(crate) struct FirstRows {
    /// How many there were, and why they fail; `None` once a row is different.
    failing: Option<(u32, Option<Reason>)>,
}

impl FirstRows {
    /// Checks the first rows, or none.
    pub(crate) fn new(look: bool) -> Self {
        Self {
            failing: look.then_some((0, None)),
        }
    }

    /// Adds the next row's request. Returns the reason if enough rows have failed only for this
    /// one.
    pub(crate) fn take<T>(&mut self, request: &Result<T, Failure>) -> Option<Reason> {
        let (rows, seen) = self.failing?;
        let reason = request.as_ref().err().map(|failure| failure.reason);
        let same = reason.filter(|reason| seen.is_none_or(|seen| seen == *reason));
        self.failing = same
            .map(|reason| (rows + 1, Some(reason)))
            .filter(|(rows, _)| *rows < ROWS);
        same.filter(|_| rows + 1 == ROWS)
    }
}

/// The error for a file whose first rows all fail for this reason. `mapping` says which column is which field.
pub(super) fn hopeless(name: &str, reason: Reason, mapping: &str) -> Error {
    let error = Error::usage(format!(
        "the first {ROWS} rows of {name} all fail for the same reason, `{reason}`, and none was sent"
    ));
    let error = if mapping.is_empty() {
        error
    } else {
        error.detail(mapping)
    };
    error.hint(fix(reason))
}

/// What helps if the first rows all fail for this reason.
#[must_use]
pub(crate) fn fix(reason: Reason) -> String {
    let fix = match reason {
        Reason::NotJson | Reason::NotAnObject => {
            "put each object on one line, with `jq -c '.[]'` for an array and with `jq -c .` otherwise"
        }
        Reason::Ragged | Reason::TextAfterQuote => "check the header, the quotes and `--delimiter`",
        Reason::NotUtf8 | Reason::Undecodable => "check `--encoding`",
        Reason::ExistingColumns => "`--existing keep` keeps the old columns under other names",
        Reason::InvalidPhone => {
            "`--phone-region` reads national numbers, as in `--phone-region DE`, and `--invalid drop` leaves out the number if the row has an email address"
        }
        Reason::WrongType => {
            "`--map FIELD=/POINTER` reads a nested member; a number must be in quotes, and a phone number needs its `+`"
        }
        _ => "name the right columns with `--map FIELD=COLUMN`",
    };
    format!("{fix}; `--keep-going` continues anyway")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The row at which the file is rejected, and why.
    fn over(rows: &[(u32, Option<Reason>)]) -> Option<(u32, Reason)> {
        let mut first = FirstRows::new(true);
        let all = rows
            .iter()
            .flat_map(|(n, reason)| (0..*n).map(move |_| *reason));
        (1..).zip(all).find_map(|(number, reason)| {
            let request = reason.map_or(Ok(()), |reason| Err(Failure::new(reason, "")));
            first.take(&request).map(|reason| (number, reason))
        })
    }

    #[test]
    fn a_hundred_rows_with_the_same_fault_are_enough_and_one_other_row_lets_all_pass() {
        use Reason::{InvalidIp, MissingIp};
        let expected = Some((100, InvalidIp));
        assert_eq!(over(&[(500, Some(InvalidIp))]), expected);
        assert_eq!(over(&[(99, Some(InvalidIp))]), None);
        assert_eq!(over(&[(1, None), (500, Some(InvalidIp))]), None);
        assert_eq!(
            over(&[(99, Some(InvalidIp)), (1, None), (500, Some(InvalidIp))]),
            None
        );
        assert_eq!(over(&[(99, Some(InvalidIp)), (500, Some(MissingIp))]), None);
    }

    #[test]
    fn it_can_be_switched_off() {
        let mut first = FirstRows::new(false);
        let request = Err::<(), _>(Failure::new(Reason::MissingIp, ""));
        assert!((0..500).all(|_| first.take(&request).is_none()));
    }
}
