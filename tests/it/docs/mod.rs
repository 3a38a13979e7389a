//! The documents are true.

pub(crate) mod documents;
mod examples;
mod reference;
mod samples;
pub(crate) mod schema;
