//! `rescore decide`: new decisions for a scored file, without a call.
//!
//! A reader's thread finds the columns of each row (`read_ahead`); the thread that called decides ([`judge`]) and either
//! writes the rows again ([`rewrite`]) or counts what other thresholds would do ([`what_if`]).

mod execute;
mod files;
mod judge;
mod rewrite;
mod what_if;

pub(crate) use execute::execute;
