//! Metrics for Prometheus, in a text file for the node exporter's textfile collector.
//!
//! The file is replaced every 15 seconds and at the end. It has row counts and reason words, never a value of a row.

mod families;
mod file;
mod thread;

pub(crate) use file::{MetricsFile, MetricsLabels};
pub(crate) use thread::MetricsThread;
