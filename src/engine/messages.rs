//! What the engine, the reader's thread and the writer's thread send to each other.

use bytes::Bytes;
use tokio::sync::mpsc;

use super::stop::Stop;
use crate::row_state::{Row, RowBatch};
use crate::telemetry::event::InputEnd;

/// What the reader's thread sends. The end is a message of its own: a reader that died must not look like a short file.
#[derive(Debug)]
pub(crate) enum Read {
    /// Some rows, in input order.
    Rows(RowBatch),
    /// There are no more rows.
    End(InputEnd),
    /// The input cannot be read any further, or the ledger cannot.
    Failed(Stop),
}

/// What the engine sends to the writer's thread.
#[derive(Debug)]
pub(crate) enum Write {
    /// Finished rows, in input order.
    Rows(Vec<Row>),
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
