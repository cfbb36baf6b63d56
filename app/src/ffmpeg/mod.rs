//! FFmpeg as a child process: it reads, encodes and records files; Sangam only moves packets.

mod child;
mod clip;
mod ports;
mod probe;
mod record;
mod source;
mod stream;

pub(crate) use child::{Child, find};
pub(crate) use clip::{CLOCK, COLOURS, Scene, clip};
pub(crate) use ports::port_pair;
pub(crate) use probe::{Probe, probe};
pub(crate) use record::Recorder;
pub(crate) use source::{FileSource, Output};
pub(crate) use stream::remux;
