//! A real server, a recording made by the recorder's log or a real broker with a camera, and
//! clients that speak RTSP by hand.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

mod camera;
mod hostile;
mod ingest;
mod live;
mod live_feedback;
mod playing;
mod refusals;
mod second;
mod stage;
