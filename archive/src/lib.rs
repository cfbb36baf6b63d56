//! Recordings: taken from topics as they are, kept so that a crash costs a second, exported and
//! replayed. And [`films`]: transport streams in [`blocks`] on as many disks as there are.
//!
//! # Recording
//! A [`Recorder`] takes the events that a client receives and hands them to a [`Log`], which
//! writes the records of all recordings of a disk one behind the other: one file grows, one sync a
//! second makes safe what came in it. `docs/spec/archive.md` specifies the bytes.
//!
//! # After a crash
//! A segment ends with its index. One that was interrupted has none: [`segment::find`] scans it up
//! to the last whole record, and [`Archive::repair`] ends it so. What is damaged is passed over
//! and counted as [`segment::Gaps`].
//!
//! # Where
//! [`Medium`] is what the log needs of a disk: a [`Folder`], or what a test makes fail. Segments
//! that are whole may go to a [`bucket`] and are read from there.
//!
//! # Out again
//! [`export::export`] writes Matroska, WebM or fragmented MP4 without a codec touching the media;
//! [`Replay`] gives every packet back at its time.
//!
//! # Annotations
//! What people say while they watch a recording is added to it as one more track:
//! [`Archive::annotate`].
//!
//! # Nodes
//! Films may lie on several [`nodes`], which read each other's blocks.

mod annotations;
mod archive;
pub mod blocks;
pub mod bucket;
mod catalogue;
pub mod export;
pub mod films;
mod index;
mod log;
mod medium;
pub mod nodes;
pub mod record;
mod recorder;
mod remove;
mod replay;
pub mod segment;
mod store;
mod timeline;

pub use annotations::{ANNOTATION_LEN_MAX, ANNOTATIONS_MAX, Annotation, annotations, web_vtt};
pub use archive::{Archive, Recording, Track, recordings, repair};
pub use catalogue::Catalogue;
pub use index::{
    Index, POINTS_ALL_MAX, POINTS_MAX, RECORDINGS_MAX, RecordingIndex, TRACKS_MAX, TrackIndex,
};
pub use log::{Log, PART, SEGMENT_LEN, WAITING_MAX};
pub use medium::{Folder, Medium};
pub use record::{NAME_LEN_MAX, RecordingId};
pub use recorder::{Recorder, RecorderCounts};
pub use remove::{Removal, RemoveError};
pub use replay::{Replay, Replayed};
pub use store::{Moved, StorePlace};
pub use timeline::Timeline;
