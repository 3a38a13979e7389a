//! The arguments of `rescore run`, and the config that they make.

mod args;
mod service;

pub(super) use args::RunArgs;
