//! The lines of the benchmark, and how they are written: to the terminal and into `docs/benchmarks.md`.
//!
//! Nothing here measures. The tests of the documents include this folder, so it uses neither other files of the benchmark
//! nor the program.

mod aim;
mod document;
pub(crate) mod lines;
mod measured;
mod numbers;
mod section;

pub(crate) use aim::Aim;
pub(crate) use document::{Document, Run};
pub(crate) use lines::Line;
pub(crate) use measured::Table;
pub(crate) use numbers::{estimate, median, number, ratios, text};
pub(crate) use section::Section;
