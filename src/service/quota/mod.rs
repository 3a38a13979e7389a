//! What an answer's headers say about the service's rate limit.

mod read;
#[cfg(test)]
mod tests;

pub use read::Quota;
pub(super) use read::wait;
