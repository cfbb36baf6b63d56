//! Films: transport streams in blocks on the disks of an archive.
//!
//! [`Films::add`] cuts a stream into blocks of whole datagrams, puts them where `core/placement`
//! says, and learns its [`Index`] on the way: when each packet is to arrive, by the stream's own
//! clock, and where playing can begin. [`Play`] reads it again as the RTP packets of RFC 2250, with
//! their times.
//!
//! # What is where
//! Everything about a film is in its blocks. Beside them, in the archive's folder, are what can be
//! made again from them, a file for each film with its index, and what cannot: the [`Roster`] of
//! disks, which is small and replaced in one step.
//!
//! # Change
//! Disks come and go by a change of the roster alone. [`Films::settle`] then brings every stripe to
//! where it belongs; it can be stopped and killed anywhere, as it looks at the disks and not at
//! notes of its own. Readers look everywhere, so films play meanwhile.
//!
//! # Nodes
//! An archive may have several nodes, each a folder and a process with disks of its own
//! ([`crate::nodes`]). All have the roster and the indexes; disks of others are read and written
//! like own ones.
//!
//! # Processes
//! Who puts blocks shares a lock that who changes disks, or clears up, holds alone. Who moves
//! blocks holds another.

mod add;
mod change;
mod cluster;
mod curve;
mod file;
mod index;
mod packets;
mod patrol;
mod play;
mod prefetch;
mod remove;
mod roster;
mod settle;
mod shelf;
mod site;
mod wind;

use core::fmt;
use std::io;

use sangam_placement::DisksError;

pub use add::{BLOCK_LEN, is_stream};
pub use cluster::View;
pub use curve::Curve;
pub(crate) use file::replace;
pub use file::{Film, Summary};
pub use index::Index;
pub use patrol::{Patrolled, Round};
pub use play::{DATAGRAM, PACKETS, Play};
pub use roster::{Entry, Roster};
pub use settle::{Progress, Report};
pub use shelf::{DiskState, Films};

use crate::blocks::BlockError;

/// Why something cannot be done with films.
#[derive(Debug)]
#[non_exhaustive]
pub enum FilmError {
    /// Of a file or folder.
    Io(String, io::Error),
    /// Of blocks.
    Blocks(BlockError),
    /// Of the disks' weights or their number.
    Disks(DisksError),
    /// Another film has the name.
    Taken(String),
    /// A stream without a program clock.
    NoClock,
    /// It changes its pace more often than an index holds.
    TooLong,
    /// A URL that is neither a folder nor a bucket.
    Url(String),
    /// There is no such disk.
    NoDisk(String),
    /// A folder is a disk already.
    Known(String),
    /// The last disk cannot go.
    LastDisk,
    /// Somebody else moves blocks.
    Busy,
    /// Of the archive's nodes.
    Node(String),
}

impl FilmError {
    /// Of a file or folder.
    fn of(what: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io(what.to_string(), error)
    }
}

impl From<BlockError> for FilmError {
    fn from(error: BlockError) -> Self {
        Self::Blocks(error)
    }
}

impl From<DisksError> for FilmError {
    fn from(error: DisksError) -> Self {
        Self::Disks(error)
    }
}

impl fmt::Display for FilmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(what, error) => write!(f, "{what}: {error}"),
            Self::Blocks(error) => error.fmt(f),
            Self::Disks(error) => error.fmt(f),
            Self::Taken(name) => write!(f, "there is a film {name:?} already"),
            Self::NoClock => f.write_str("the stream has no program clock (PCR) to play it by"),
            Self::TooLong => f.write_str("the film is longer than 116 hours: cut it"),
            Self::Url(place) => write!(
                f,
                "{place}: a disk is a folder, of any file system, or a bucket: s3://BUCKET/PREFIX"
            ),
            Self::NoDisk(wanted) => write!(f, "there is no disk {wanted:?}"),
            Self::Known(place) => write!(f, "{place} is a disk of an archive already"),
            Self::LastDisk => f.write_str("the last disk cannot go: films would have no place"),
            Self::Node(why) => f.write_str(why),
            Self::Busy => f.write_str("another process moves blocks now"),
        }
    }
}

impl core::error::Error for FilmError {}
