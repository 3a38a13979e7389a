//! One input of a run with its output: open, and when its rows have run. What belongs to the whole run is not here.

use std::path::PathBuf;

use super::super::open_input::InputFacts;
use super::input_check::InputCheck;
use super::rows::RowsEnd;
use crate::input::Reader;
use crate::layout::Layout;
use crate::output::{Sides, Sink, Target};

/// An input and its output, open.
pub(super) struct OpenFile {
    /// What is known of the input.
    pub(super) input: InputFacts,
    /// The input's path with links followed; `None` for a stream.
    pub(super) real_input: Option<PathBuf>,
    /// The output; `None` is standard output.
    pub(super) output: Option<Target>,
    pub(super) reader: Reader,
    /// What checks the rows of a stream as they are read.
    pub(super) check: InputCheck,
    pub(super) layout: Layout,
    pub(super) sink: Sink,
    pub(super) sides: Sides,
}

/// An input whose rows have run, to the end or to a stop.
pub(super) struct FileEnd {
    /// What is known of the input.
    pub(super) input: InputFacts,
    /// The output; `None` is standard output.
    pub(super) output: Option<Target>,
    pub(super) rows: RowsEnd,
}
