//! Every paid answer, durable: what was asked once is never paid for again.
//!
//! A ledger is a database of answers by request, a SQLite file. A run opens it ([`OpenLedger`]), looks up what earlier runs
//! stored ([`Lookup`]), starts with it ([`RunningLedger`]) and makes new answers durable ([`LedgerWriter`]). Without a run,
//! [`preview()`] shows what a run would find, and `admin` shows what is in a ledger and removes answers. A ledger must not know files of users or calls, and stores
//! nothing about a person.

mod access;
mod admin;
mod answer_memory;
mod bloom_filter;
mod boot_clock;
mod clock;
mod contents;
mod db;
mod facts;
#[cfg(test)]
mod faults;
mod file;
mod group_commit;
mod holder;
mod judge;
mod kept_fields;
mod known_limit;
mod lease;
mod ledger_preview;
mod location;
mod lock;
mod lookup;
mod lookup_result;
mod packed;
mod request_key;
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
pub(crate) use admin::{CleanupResult, Eraser, Forget, ForgetCounts, prune};
pub(crate) use contents::{AGES, EndpointStats};
pub(crate) use db::captures::LackingAnswers;
pub(crate) use db::outputs::OutputState;
pub(crate) use db::runs::PreviousRun;
pub(crate) use db::space_reserve::space_for_answers;
pub(crate) use facts::{EarlierAnswers, LedgerFacts};
#[cfg(test)]
pub(crate) use faults::StoreFaults;
pub(crate) use file::{SUFFIXES, ledger_of};
pub(crate) use group_commit::Urgency;
pub(crate) use kept_fields::FieldsToKeep;
pub(crate) use known_limit::KnownLimit;
pub(crate) use lease::{Holding, WorkerNumber};
pub(crate) use ledger_preview::PreviewedRun;
pub use location::LedgerLocation;
pub(crate) use lock::OutputLock;
pub(crate) use lookup::Lookup;
pub(crate) use lookup_result::AnsweredIn;
pub use lookup_result::{KnownOutcome, LookupResult};
pub(crate) use request_key::{ByRequest, RequestHasher, RequestKey};
pub(crate) use session::{ClosedLedger, RunningLedger, SettledLedger, preview};
pub use session::{OpenLedger, Removal};
pub use settings::{Freshness, LedgerSettings, Reuse};
pub(crate) use settings::{PreviewAccount, PreviewSettings};
pub(crate) use store::{ClaimRequest, ClaimResult, FinishedRun, RunEnd};
pub(crate) use write_thread::Claimed;
pub(crate) use writer::LedgerWriter;
