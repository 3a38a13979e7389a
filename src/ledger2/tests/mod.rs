//! What must hold of a ledger, whichever database it is: the same histories are played into each, and into a model.

#![allow(clippy::unwrap_used)]

mod damage;
mod histories;
mod support;
