//! The input of a command, opened, and what was found out about it.

use crate::base::error::Result;
use crate::input::{Compose, FileSettings, Input, Opened, Reader, ReaderSettings};
use crate::layout::Layout;
use crate::selection::Selection;

/// Opens a file that an earlier run wrote, with these columns besides ours.
///
/// # Errors
/// Exit code 2: it cannot be read, or is not a scored file with these columns.
pub(in crate::commands) fn open_scored(
    file: &FileSettings,
    prefix: &str,
    asked: Vec<String>,
) -> Result<(Reader, Opened)> {
    let settings = ReaderSettings::of_scored(file, prefix, asked);
    Reader::open(settings, Compose::new(|_, _| {}))
}

/// What opening the input found out.
pub(in crate::commands) struct InputFacts {
    pub(in crate::commands) source: Input,
    /// One line for people: which column is which field.
    pub(in crate::commands) mapping: String,
    /// Columns of an earlier run that are replaced.
    pub(in crate::commands) replaced: Vec<String>,
    /// The size in bytes, where it is known.
    pub(in crate::commands) size: Option<u64>,
    /// Which of its rows the run takes.
    pub(in crate::commands) selection: Selection,
}

impl InputFacts {
    /// The input's name for people.
    pub(in crate::commands) fn name(&self) -> String {
        self.source.shown()
    }

    /// The size in bytes of the rows that the run takes, where it is known.
    pub(super) fn size_of_rows(&self) -> Option<u64> {
        self.size.filter(|_| self.selection.is_everything())
    }
}

/// An open input.
pub(in crate::commands) struct OpenInput {
    pub(in crate::commands) reader: Reader,
    pub(in crate::commands) layout: Layout,
    /// Who may read and write it, as a file's permission bits.
    pub(in crate::commands) mode: u32,
    pub(in crate::commands) facts: InputFacts,
}

impl OpenInput {
    /// Opens the input. `compose` makes the requests of its rows.
    ///
    /// # Errors
    /// Exit code 2: it cannot be read, or is not a file of users.
    pub(in crate::commands) fn open(settings: ReaderSettings, compose: Compose) -> Result<Self> {
        let (source, selection) = (settings.file.input.clone(), settings.selection);
        let (reader, opened) = Reader::open(settings, compose)?;
        let Opened {
            layout,
            mapping,
            replaced,
            size,
            mode,
            name: _,
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
            },
        })
    }
}
