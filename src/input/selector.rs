//! Takes the selected rows of a source, one by one, and knows whether there were others.

use super::batch::ReadRow;
use crate::selection::{Sample, Selection};
use crate::telemetry::event::InputEnd;

/// Takes the rows of a selection.
#[derive(Debug)]
pub(super) struct Selector {
    sample: Option<Sample>,
    /// How many bytes of a request come before what is sent.
    marks: usize,
    /// How many more rows are taken.
    left: u64,
    /// Whether a row was left out.
    passed_over: bool,
}

impl Selector {
    /// Before the first row. Requests have so many bytes before what is sent.
    pub(super) const fn new(selection: Selection, marks: usize) -> Self {
        let left = match selection.limit {
            Some(limit) => limit.get(),
            None => u64::MAX,
        };
        Self {
            sample: selection.sample,
            marks,
            left,
            passed_over: false,
        }
    }

    /// Whether no more rows are taken, so that none need to be read.
    #[inline]
    pub(super) const fn is_full(&self) -> bool {
        self.left == 0
    }

    /// Whether the row is taken.
    #[inline]
    pub(super) fn takes(&mut self, row: &ReadRow) -> bool {
        let is_in = self.sample.is_none_or(|sample| {
            sample.has(match &row.request {
                Ok(request) => request.get(self.marks..).unwrap_or_default(),
                Err(_) => row.row.content(),
            })
        });
        self.left -= u64::from(is_in);
        self.passed_over |= !is_in;
        is_in
    }

    /// What was taken of the source. After a limit, no further row is read to find out whether there is one.
    pub(super) const fn end(&self) -> InputEnd {
        if self.passed_over || self.is_full() {
            InputEnd::Part
        } else {
            InputEnd::Whole
        }
    }
}
