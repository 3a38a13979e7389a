//! Every paid answer, durable: what was asked once is never paid for again.
//!
//! A ledger is a database of answers by request: a SQLite file in the folder of a run's output, or tables on a PostgreSQL
//! server. A run opens it ([`OpenLedger`]), looks up what is stored ([`Lookup`]), starts with it ([`RunningLedger`]), claims
//! requests before it calls for them, and makes new answers durable ([`LedgerWriter`]). Without a run, [`preview()`] shows what
//! a run would find, and [`LedgerAdmin`] removes answers. A ledger must not know files of users or calls, and stores nothing
//! about a person that can be read without that person's request.

mod account;
mod admin;
mod database;
mod fault;
#[cfg(test)]
mod faults;
mod file;
mod group_commit;
mod index;
mod key;
mod lease;
mod open;
mod outcome;
mod outputs;
mod postgres;
mod run;
mod server_url;
mod settings;
mod sqlite;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use account::{KnownLimit, StoredAccount};
pub(crate) use admin::LedgerAdmin;
pub(crate) use database::{ClaimResult, Lookup};
pub(crate) use fault::VERSION as LEDGER_VERSION;
#[cfg(test)]
pub(crate) use faults::{FailingLookup, StoreFaults};
pub(crate) use file::{NAME, SUFFIXES, ledger_in};
pub(crate) use group_commit::Urgency;
pub(crate) use key::{ByRequest, RequestHasher, RequestKey};
pub(crate) use lease::{Holding, WorkerNumber};
pub(crate) use open::{LedgerFacts, OpenLedger, RunningLedger, init, preview};
pub(crate) use outcome::{KnownOutcome, LookupResult, Outcome, ReadAnswer};
pub(crate) use outputs::{OutputLock, OutputState, lock_of};
pub(crate) use run::RunEnd;
pub(crate) use settings::{LedgerAccount, LedgerLocation, LedgerSettings, Reuse, ServerWait};
pub(crate) use writer::{Claimed, LedgerWriter};
