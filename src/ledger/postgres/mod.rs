//! A ledger on a PostgreSQL server, which several machines share.
//!
//! [`server`] sends statements and knows what a failure means; the tables are in [`schema`], and each other file knows the
//! statements of one of them. It must not know how runs are scheduled or what is shown to people.

mod fault;
mod forget;
mod init;
mod keeper;
mod ledger;
#[allow(dead_code, reason = "TEMP")]
mod limits;
mod password;
mod schema;
#[allow(dead_code, reason = "TEMP")]
mod secret_file;
#[allow(dead_code, reason = "TEMP")]
mod server;
#[allow(dead_code, reason = "TEMP")]
mod sources;
mod stats;
#[allow(dead_code, reason = "TEMP")]
mod stored;
mod tls;

pub(crate) use forget::ServerForget;
pub(crate) use init::{InitResult, init};
pub(crate) use keeper::ServerKeeper;
pub(super) use stats::read_stats;
