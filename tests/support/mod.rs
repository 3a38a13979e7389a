//! What the tests share: the program, a scripted server, and users with their expected verdicts.

pub(crate) mod command_line;
pub(crate) mod ledger_file;
pub(crate) mod postgres;
pub(crate) mod process;
pub(crate) mod server;
pub(crate) mod shown;
pub(crate) mod stand_in;
pub(crate) mod tls;
pub(crate) mod users;
