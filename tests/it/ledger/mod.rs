//! The ledger: what is paid for is known, and can be looked at, pruned and forgotten.

mod commands;
mod damage;
mod drift;
mod finished;
mod fresh;
mod older_answers;
mod resume;
mod shared;
