//! The service's answer is judged.

#![no_main]

#[path = "../../tests/fuzz_laws/mod.rs"]
mod fuzz_laws;

libfuzzer_sys::fuzz_target!(|input: &[u8]| fuzz_laws::answer::law(input));
