//! What must hold of a ledger in either database: the same histories are played into each, and
//! into a model.

#![allow(clippy::disallowed_methods, clippy::too_many_lines)]

mod costs;
pub(crate) mod faults;
mod histories;
pub(crate) mod postgres;
mod spending;
mod support;
