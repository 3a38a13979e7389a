//! Lines of JSON to records, keeping every byte.
//!
//! A line that is not a JSON object stays in its place as it is; only its row fails. Values that are not sent are never
//! read, let alone printed again.

mod lines;
mod member_text;
mod member_uses;
mod nested;
mod object;
mod parser;

pub(super) use lines::{lines_of, readable, scan};
pub(super) use object::value_fits;
pub(super) use parser::{JsonlParser, not_an_object};
