//! The documents are true.

mod documents;
mod examples;
mod reference;
mod samples;
pub(crate) mod schema;
