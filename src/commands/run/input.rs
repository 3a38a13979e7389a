//! The input of a run, opened, and what was found out about it.

use bytes::BytesMut;

use crate::base::error::{Result, shown};
use crate::base::stderr::say;
use crate::fields::UserRequest;
use crate::input::{self, Input, Opened, Reader, TrailingGarbage};
use crate::layout::Layout;
use crate::selection::Selection;
use crate::service::{self, Plan};

/// A warning; gzip says the same.
pub(super) const IGNORED: &str =
    "the compressed data of the input is followed by other bytes, which are ignored";

/// What opening the input found out.
pub(super) struct InputFacts {
    pub(super) source: Input,
    /// One line for people: which column is which field.
    pub(super) mapping: String,
    /// Columns of an earlier run that are replaced.
    pub(super) replaced: Vec<String>,
    /// The size in bytes, where it is known.
    pub(super) size: Option<u64>,
    /// Which of its rows the run takes.
    pub(super) selection: Selection,
    /// Whether bytes behind compressed data are ignored, as known now.
    pub(super) ignored: TrailingGarbage,
    /// The same, as known when the input was opened.
    pub(super) ignored_at_start: bool,
}

impl InputFacts {
    /// The input's name for people.
    pub(super) fn name(&self) -> String {
        match &self.source {
            Input::Stdin => "standard input".to_owned(),
            Input::File(path) => shown(path),
        }
    }

    /// The size in bytes of the rows that the run takes, where it is known.
    pub(super) fn size_of_rows(&self) -> Option<u64> {
        self.size.filter(|_| self.selection.is_everything())
    }
}

/// An open input.
pub(super) struct OpenInput {
    pub(super) reader: Reader,
    pub(super) layout: Layout,
    /// Who may read and write it, as a file's permission bits.
    pub(super) mode: u32,
    pub(super) facts: InputFacts,
}

impl OpenInput {
    /// Opens the input. Where checking it takes long, it says so.
    ///
    /// # Errors
    /// Exit code 2: it cannot be read, or cannot be the input of a run.
    pub(super) fn open(
        settings: input::ReaderSettings,
        plan: Plan,
        shows_text: bool,
    ) -> Result<Self> {
        if shows_text && input::is_checked_for_long(&settings.file.input) {
            say("rescore: checking the compressed input before anything is sent");
        }
        let (source, selection) = (settings.file.input.clone(), settings.selection);
        let compose = move |request: &UserRequest<'_>, to: &mut BytesMut| {
            service::write_body(request, plan, to);
        };
        let (reader, opened) = Reader::open(settings, Box::new(compose))?;
        let Opened {
            layout,
            mapping,
            replaced,
            size,
            mode,
            ignored,
        } = opened;
        Ok(Self {
            reader,
            layout,
            mode,
            facts: InputFacts {
                source,
                mapping,
                replaced,
                size,
                selection,
                ignored_at_start: ignored.any(),
                ignored,
            },
        })
    }
}
