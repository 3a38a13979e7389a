//! Every write and every look-up of a run fails: the first, the second, the third and so on, once or from then on. No row
//! gets the verdict of another one, no stored answer is paid for again, and the next run gives the same bytes as a run in
//! which nothing failed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod failures;
mod test_run;
