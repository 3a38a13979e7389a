//! The ledger: what is paid for is kept, found, and not paid for again; and it can be inspected, pruned, and made to forget
//! people.

mod asked_again;
mod budget;
mod changes;
mod commands;
mod damage;
mod drift;
mod finished;
mod in_step;
mod killed;
mod many_kills;
mod older_answers;
mod paid_once;
mod places;
mod postgres;
mod resume;
mod shared;
