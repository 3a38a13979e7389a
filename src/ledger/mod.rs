//! Every paid answer, durable: what was asked once is never paid for again.
//!
//! A ledger is a database of answers by request: a SQLite file in the folder of a run's output, or tables on a PostgreSQL
//! server. A run opens it ([`OpenLedger`]), looks up what is stored ([`Lookup`]), starts with it ([`RunningLedger`]), claims
//! requests before it calls for them, and makes new answers durable ([`LedgerWriter`]). Without a run, [`preview()`] shows what
//! a run would find, and [`administer`] opens it to remove answers. A ledger must not know files of users or calls, and stores
//! nothing about a person that can be read without that person's request.

mod account;
mod clock;
mod database;
#[cfg(test)]
mod faults;
mod file;
mod group_commit;
mod index;
mod key;
mod known_limit;
mod lease;
mod lock;
mod open;
mod opening;
mod outcome;
mod outputs;
mod postgres;
mod run;
mod server_url;
mod settings;
mod space_reserve;
mod sqlite;
mod store;
#[cfg(test)]
mod tests;
mod write_thread;
mod writer;

pub(crate) use account::{AGES, AccountStats};
pub(crate) use database::VERSION as LEDGER_VERSION;
#[cfg(test)]
pub(crate) use faults::{FailingLookup, StoreFaults};
pub(crate) use file::{NAME, SUFFIXES, ledger_in};
pub(crate) use group_commit::Urgency;
pub(crate) use key::{ByRequest, RequestHasher, RequestKey};
pub(crate) use known_limit::KnownLimit;
pub(crate) use lease::{Holding, WorkerNumber};
pub(crate) use lock::{OutputLock, lock_of};
pub(crate) use open::{OpenLedger, RunningLedger, administer, init, preview, stats};
pub(crate) use opening::LedgerFacts;
pub(crate) use outcome::{KnownOutcome, LookupResult, Outcome, ReadAnswer};
pub(crate) use outputs::OutputState;
pub(crate) use settings::{LedgerAccount, LedgerLocation, LedgerSettings, Reuse, ServerWait};
pub(crate) use store::{ClaimResult, Lookup, RunEnd};
pub(crate) use write_thread::Claimed;
pub(crate) use writer::LedgerWriter;
