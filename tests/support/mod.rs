//! What the tests share: the program, a scripted server, and users with their expected verdicts.

pub(crate) mod command_line;
mod gathered;
pub(crate) mod ledger_file;
pub(crate) mod new_field;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod process;
#[cfg(feature = "postgres")]
pub(crate) mod proxy;
pub(crate) mod server;
pub(crate) mod shown;
#[cfg(feature = "postgres")]
pub(crate) mod small_disk;
pub(crate) mod stand_in;
pub(crate) mod tls;
pub(crate) mod users;
