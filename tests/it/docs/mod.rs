//! The documents are true.

mod architecture;
mod documents;
mod readme;
mod reference;
mod samples;
pub(crate) mod schema;
