//! `rescore decide`: other decisions for a scored file, without a call.

mod endings;
mod outcomes;
mod refused;
mod rows;
mod what_if;
