//! What the tests have in common: the program, a scripted server, users and what becomes of them.

pub(crate) mod ledger_file;
pub(crate) mod process;
pub(crate) mod server;
pub(crate) mod users;
