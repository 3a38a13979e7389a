//! The documents are true.

mod documents;
mod readme;
mod reference;
