//! A real server, a recording made by the recorder's log, and clients that speak RTSP by hand.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod hostile;
mod playing;
mod refusals;
mod stage;
