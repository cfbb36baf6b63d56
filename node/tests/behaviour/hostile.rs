//! Bytes nobody should send.
