//! A ledger on a PostgreSQL server, which several machines share.
//!
//! [`server`] sends statements and knows what a failure means; the tables are in [`schema`], and each other file knows the
//! statements of one of them. It must not know how runs are scheduled or what is shown to people.

mod claims;
mod contact;
mod earlier_spills;
mod fault;
mod forget;
mod import;
mod init;
mod keeper;
mod ledger;
mod limits;
mod lookup;
mod open;
mod own_answers;
mod pace;
mod password;
mod preview;
mod private_file;
mod runs;
mod schema;
mod secret_file;
mod server;
mod settle;
mod shell;
mod sources;
mod spill;
mod stats;
mod store;
mod stored;
mod tls;
mod workers;

pub(crate) use contact::{ServerContact, WaitingAnswers};
pub(crate) use forget::ServerForget;
pub(crate) use import::{ImportCounts, ImportSettings, import};
pub(crate) use init::{InitResult, init};
pub(crate) use keeper::ServerKeeper;
pub(crate) use lookup::ServerLookup;
pub(crate) use open::{OpenServer, StartedServer, refuse_reuse};
pub(super) use preview::{ServerPreview, open_preview};
pub(super) use stats::read_stats;
