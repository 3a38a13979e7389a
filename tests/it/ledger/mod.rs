//! The ledger: it keeps what was paid for, and can be inspected, pruned, and made to forget people.

mod asked_again;
mod asked_since;
mod changes;
mod commands;
mod damage;
mod drift;
mod finished;
mod fresh;
mod in_step;
mod killed;
mod many_kills;
mod older_answers;
mod other_accounts;
mod other_requests;
mod resume;
mod shared;
