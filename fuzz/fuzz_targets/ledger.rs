//! Whatever lies where a ledger should be is opened and used.

#![no_main]

#[path = "../../tests/fuzz_laws/mod.rs"]
mod fuzz_laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_laws::ledger::law(input));
