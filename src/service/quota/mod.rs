//! What an answer's headers say about the service's rate limit.

mod read;
mod structured_fields;
#[cfg(test)]
mod tests;

pub use read::Quota;
