//! The ledger's SQLite database: all SQL is in here.
//!
//! The answers are in blocks, beside an index. No names, addresses or phone numbers of people are in the database, and no key that would
//! let anybody call the service. It must not know how runs are scheduled or what is shown to people.

pub(super) mod answer_blocks;
pub(super) mod answer_index;
pub(super) mod answer_removal;
pub(super) mod answer_writer;
pub(super) mod answers;
pub(super) mod captures;
pub(super) mod checksum;
pub(super) mod claim_rows;
pub(super) mod claims;
pub(super) mod connect;
pub(super) mod contexts;
pub(super) mod database;
pub(super) mod errors;
pub(super) mod failures;
pub(super) mod found_answer;
pub(super) mod header;
pub(super) mod latest_answers;
pub(super) mod limits;
pub(super) mod other_claims;
pub(super) mod outputs;
pub(super) mod own_claims;
pub(super) mod recent_answers;
pub(super) mod request_reader;
pub(super) mod runs;
pub(super) mod schema;
pub(super) mod space_reserve;
