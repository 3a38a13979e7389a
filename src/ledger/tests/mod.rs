//! Tests of the ledger as a whole: what was stored is found, what should not be used is not, and what cannot be stored is
//! reported.

mod answers;
mod claims;
mod claims_in_any_order;
mod continuing;
mod damage;
mod files;
mod full_disk;
mod lookups;
mod memory;
mod support;
mod writing;
