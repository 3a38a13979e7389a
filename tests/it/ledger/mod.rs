//! The ledger keeps paid answers, finds them again, and can be copied, inspected, pruned, and made to forget people.

mod changes;
mod changes_by_key;
mod commands;
mod copies;
mod damage;
mod distrust;
mod kills;
mod one_ledger;
mod paid_once;
mod places;
mod postgres;
mod resume;
mod together;
