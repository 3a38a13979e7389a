//! What every other module may use: errors, standard error, secrets, decimals and exact amounts of money, encodings, numbers as
//! people read them, how many rows may be bad, files that the program creates, recognising a file or a
//! database, and the directory of a file.
//!
//! Nothing here knows about rows, calls or the service.

pub(crate) mod any_byte;
pub(crate) mod control_chars;
pub(crate) mod decimal;
pub(crate) mod directory;
pub(crate) mod elapsed;
pub(crate) mod encoding;
pub(crate) mod error;
pub(crate) mod file_id;
pub(crate) mod money;
pub(crate) mod own_file;
pub(crate) mod rlimit;
pub(crate) mod secret;
pub(crate) mod share;
pub(crate) mod sqlite_file;
pub(crate) mod stderr;
pub(crate) mod stdout;
pub(crate) mod thousands;
pub(crate) mod tolerance;
