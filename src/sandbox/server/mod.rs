//! The stand-in on the network: HTTP/1.1 on loopback, with faults and limits for rehearsals, and a
//! count of what it billed.

mod connection;
mod hang_up;
mod report;
mod responses;
mod stand_in;
#[cfg(test)]
mod tests;
mod token_bucket;

pub(crate) use connection::{listen, serve};
pub(crate) use report::Report;
