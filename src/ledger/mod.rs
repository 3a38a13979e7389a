//! Every paid answer, durable: what was asked once is never paid for again.
//!
//! A ledger is one SQLite database of answers by request. A run opens it ([`OpenLedger`]), looks up what earlier runs
//! stored ([`Lookup`]), starts with it ([`RunningLedger`]) and makes new answers durable ([`LedgerWriter`]). Without a run,
//! [`LedgerPreview`] shows what a run would find, and `admin` shows what is in a ledger and removes answers. A ledger must not know files of users or calls, and stores
//! nothing about a person.

mod access;
mod admin;
mod bloom_filter;
mod boot_clock;
mod clock;
mod db;
#[cfg(test)]
mod faults;
mod file;
mod group_commit;
mod holder;
mod judge;
mod known_limit;
mod lease;
mod location;
mod lock;
mod lookup;
mod lookup_result;
mod packed;
mod request_key;
mod request_uuids;
mod sealed_failure;
mod session;
mod settings;
mod store;
mod stored_answer;
#[cfg(test)]
mod tests;
mod worker_lock;
mod write_thread;
mod writer;

pub use admin::read_stats;
pub(crate) use admin::{AGES, CleanupResult, EndpointStats, Eraser, Forget, ForgetCounts, prune};
pub(crate) use db::captures::LackingAnswers;
pub(crate) use db::outputs::OutputState;
pub(crate) use db::runs::PreviousRun;
#[cfg(test)]
pub(crate) use faults::StoreFaults;
pub(crate) use file::{SUFFIXES, ledger_of};
pub(crate) use known_limit::KnownLimit;
pub(crate) use lease::{Holding, WorkerNumber};
pub use location::LedgerLocation;
pub(crate) use lock::OutputLock;
pub(crate) use lookup::Lookup;
pub use lookup_result::{KnownOutcome, LookupResult};
pub(crate) use request_key::{RequestHasher, RequestKey};
pub(crate) use request_uuids::RequestUuids;
pub(crate) use session::{
    ClosedLedger, EarlierAnswers, LedgerPreview, PreviewedRun, RunningLedger,
};
pub use session::{OpenLedger, Removal};
pub use settings::{LedgerSettings, Reuse};
pub(crate) use settings::{PreviewAccount, PreviewSettings};
pub(crate) use store::{ClaimRequest, ClaimResult, FinishedRun};
pub(crate) use write_thread::Claimed;
pub(crate) use writer::LedgerWriter;
