//! What the engine, the reader's thread and the writer's thread send to each other.

use bytes::Bytes;
use tokio::sync::mpsc;

use super::stop::Stop;
use super::window::PendingRow;
use crate::output::DoneRow;
use crate::telemetry::event::InputEnd;

/// What the reader's thread sends. The end is a message of its own: a reader that died must not look like a short file.
#[derive(Debug)]
pub(crate) enum Read {
    /// Some rows, in input order.
    Rows {
        /// The rows.
        rows: Vec<PendingRow>,
        /// How many bytes of the source are used up with them; for progress by bytes.
        position: u64,
        /// Blank lines after the last row; empty except in the last batch.
        trailer: Bytes,
        /// How many of the rows have a request without a value that is invalid.
        dropped: u64,
    },
    /// There are no more rows.
    End(InputEnd),
    /// The input cannot be read any further, or the ledger cannot.
    Failed(Stop),
}

/// What the engine sends to the writer's thread.
#[derive(Debug)]
pub(crate) enum Write {
    /// Finished rows, in input order.
    Rows(Vec<DoneRow>),
    /// Blank lines after the last row.
    Trailer(Bytes),
}

/// The engine's ends.
pub(crate) struct Channels<'a> {
    /// From the reader's thread.
    pub(crate) read: mpsc::Receiver<Read>,
    /// To the writer's thread.
    pub(crate) write: mpsc::Sender<Write>,
    /// From signals and the writer's thread. What comes after the engine's end stays in it.
    pub(crate) stops: &'a mut mpsc::UnboundedReceiver<Stop>,
}
