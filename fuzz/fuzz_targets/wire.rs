//! Any bytes at every decoder of the wire: none panics, and what is read survives writing.
//!
//! `cargo +nightly fuzz run wire`, with `core/wire/vectors` as a source of seeds.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sangam_wire::check::all(bytes));
