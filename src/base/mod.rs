//! What every other module may use: errors, secrets, numbers as they were written, safe text, and files of our own.
//!
//! Nothing here knows of rows, calls or the service.

pub(crate) mod control_chars;
pub(crate) mod decimal;
pub(crate) mod error;
pub(crate) mod own_file;
pub(crate) mod say;
pub(crate) mod secret;
pub(crate) mod system;
