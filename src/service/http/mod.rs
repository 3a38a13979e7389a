//! The HTTP client: the only module that names reqwest.
//!
//! It sends a body and returns what came back, or why nothing did, as plain data. It sends nothing twice that may
//! have been processed, never follows a redirect, and never puts a key or a URL into a message.

mod client;
mod connections;
mod fault;
#[cfg(test)]
mod tests;

pub(crate) use client::{Client, ClientSettings};
