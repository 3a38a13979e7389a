//! The documents are true.

mod readme;
