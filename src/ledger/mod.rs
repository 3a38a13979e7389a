//! Every paid answer, durable: no request is paid for twice.
//!
//! A ledger is a database of answers by request: a SQLite file, one for each user unless another
//! one is named, or tables on a PostgreSQL server. A run opens it ([`OpenLedger`]), looks up what
//! is stored ([`Lookup`]), starts with it ([`RunningLedger`]), claims requests before it calls for
//! them, and makes new answers durable ([`LedgerWriter`]). Without a ledger, the writer remembers
//! the latest answers in memory. Without a run, [`preview()`] shows what a run would find, and
//! [`LedgerAdmin`] removes answers. A ledger must not know files of users or calls, and stores
//! nothing about a person that can be read without that person's request.

mod accounts;
mod admin;
mod answers;
mod claims;
mod copy;
mod database;
mod fault;
mod key;
mod location;
mod open;
mod outputs;
mod postgres;
mod runs;
mod sqlite;
mod sqlite_file;
#[cfg(test)]
pub(crate) mod tests;
mod writer;

pub(crate) use accounts::{Budget, Per, PeriodSpending, RememberedLimit, Spending, StoredAccount};
pub(crate) use admin::{LedgerAdmin, Removal};
pub(crate) use answers::{KnownResult, LookupResult, OldAnswer, PaidResult, Payment, ReadAnswer};
pub(crate) use claims::{ClaimResult, Unanswered};
pub(crate) use copy::copy;
pub(crate) use fault::VERSION as LEDGER_VERSION;
#[cfg(test)]
pub(crate) use key::RequestHasher;
pub(crate) use key::{ByRequest, RequestKey};
pub(crate) use location::{
    LedgerAccount, LedgerLocation, ServerWait, default_file, make_directory, sandbox_beside,
    status_directory, without_secrets,
};
pub(crate) use open::{LedgerFacts, Lookup, OpenLedger, RunningLedger, init, preview};
pub(crate) use outputs::{OutputLock, OutputState, host, lock_of};
pub(crate) use runs::{LedgerSettings, Reuse, RunEnd};
pub(crate) use sqlite_file::SUFFIXES;
pub(crate) use writer::{Claimed, LeaseGeneration, LedgerWriter, Urgency};
