//! One input of a run with its output: open, and when its rows have run. What belongs to the whole run is not here.

use std::path::PathBuf;

use super::super::input_check::InputCheck;
use super::super::open_input::InputFacts;
use super::rows::RowsEnd;
use crate::input::{Input, Reader};
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

/// The path of an input that is a file, with links followed. The path of a pipe, such as `/dev/fd/63`, is another one each
/// time.
pub(super) fn real_path(input: &Input) -> Option<PathBuf> {
    match input {
        Input::File(path) if path.is_file() => path.canonicalize().ok(),
        Input::File(_) | Input::Stdin => None,
    }
}
