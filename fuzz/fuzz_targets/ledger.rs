//! Whatever lies where a ledger should be is opened and used.

#![no_main]

#[path = "../../tests/fuzz_invariants/mod.rs"]
mod fuzz_invariants;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_invariants::ledger::holds(input));
