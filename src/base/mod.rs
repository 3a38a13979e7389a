//! What every other module may use: errors, standard error, secrets and where they show, numbers and exact amounts of money,
//! foreign text, hashes of files, and files that the program creates.
//!
//! Nothing here knows about rows, calls or the service.

pub(crate) mod error;
pub(crate) mod meter;
pub(crate) mod money;
pub(crate) mod numbers;
pub(crate) mod private_file;
pub(crate) mod secret;
pub(crate) mod stderr;
pub(crate) mod text;
pub(crate) mod threads;
