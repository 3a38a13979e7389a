//! The documents are true.

mod architecture;
mod benchmarks;
mod documents;
mod readme;
mod reference;
mod samples;
pub(crate) mod schema;
