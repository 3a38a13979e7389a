//! Every paid answer, durable: what was asked once is never paid for again.
//!
//! A ledger is one SQLite database of answers by request. A run opens it ([`OpenLedger`]), looks up what earlier runs
//! stored ([`Lookup`]), starts with it ([`RunningLedger`]) and makes new answers durable ([`LedgerWriter`]). Without a run,
//! [`LedgerPreview`] shows what a run would find, and `admin` shows what is in a ledger and removes answers. A ledger must not know files of users or calls, and stores
//! nothing about a person.

mod access;
mod admin;
mod bloom_filter;
mod clock;
mod db;
#[cfg(test)]
mod faults;
mod file;
mod group_commit;
mod holder;
mod location;
mod lock;
mod lookup;
mod packed;
mod request_key;
mod request_uuids;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod writer;

pub use admin::read_stats;
pub(crate) use admin::{AGES, CleanupResult, EndpointStats, Eraser, Forget, ForgetCounts, prune};
pub(crate) use db::captures::LackingAnswers;
pub(crate) use db::limits::KnownLimit;
pub(crate) use db::outputs::OutputState;
pub(crate) use db::runs::PreviousRun;
pub(crate) use db::store::FinishedRun;
#[cfg(test)]
pub(crate) use faults::StoreFaults;
pub(crate) use file::{SUFFIXES, ledger_of};
pub use location::LedgerLocation;
pub(crate) use lock::OutputLock;
pub(crate) use lookup::{AnsweredIn, Lookup};
pub use lookup::{KnownOutcome, LookupResult};
pub(crate) use request_key::{RequestHasher, RequestKey};
pub(crate) use request_uuids::RequestUuids;
pub(crate) use session::{
    ClosedLedger, EarlierAnswers, LedgerPreview, PreviewedRun, RunningLedger,
};
pub use session::{OpenLedger, Removal};
pub use settings::{Freshness, LedgerSettings, Reuse};
pub(crate) use settings::{PreviewAccount, PreviewSettings};
pub(crate) use writer::LedgerWriter;
