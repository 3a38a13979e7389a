//! JSON that is read but never printed again: members, pointers and numbers as slices of the text.
//!
//! A number beyond 2^53 or a score of 17 digits must come out as it went in, so nothing here builds a tree of values:
//! everything is a slice of the text. What is valid is decided by `serde_json`.

mod object;
mod pointer;
mod value;

pub use object::members;
pub use pointer::Pointer;
pub(crate) use pointer::{Ambiguous, follow};
pub use value::string;
pub(crate) use value::{JsonValue, MAX_DEPTH, escape_unsafe, on_one_line, put_string, too_deep};
