//! Any bytes where a stream begins: HTTP heads of both sides, and frames of WebSockets.
//!
//! `cargo +nightly fuzz run streams`; the property tests of `io` run the same checks.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sangam_io::stream::check::all(bytes));
