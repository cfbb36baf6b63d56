//! A disk of another node.

use std::io::{self, ErrorKind};
use std::sync::Arc;

use super::link::Link;
use super::message::Request;
use crate::blocks::{BlockDisk, PieceId};

/// Bytes of a piece's name in a list.
pub(super) const NAMED: usize = 17;

/// A disk of another node, by its [`Link`].
#[derive(Debug)]
pub struct RemoteDisk {
    link: Arc<Link>,
    disk: u32,
    changes: u64,
}

impl RemoteDisk {
    /// The disk of this number there, as of so many changes of the disks.
    #[must_use]
    pub const fn new(link: Arc<Link>, disk: u32, changes: u64) -> Self {
        Self {
            link,
            disk,
            changes,
        }
    }
}

impl BlockDisk for RemoteDisk {
    fn put(&self, piece: PieceId, bytes: &[u8]) -> io::Result<()> {
        let disk = self.disk;
        self.link
            .ask(&Request::Put { disk, piece }, bytes)
            .map(drop)
    }

    fn get(&self, piece: PieceId) -> io::Result<Vec<u8>> {
        let disk = self.disk;
        self.link.data(&Request::Get { disk, piece })
    }

    fn remove(&self, piece: PieceId) -> io::Result<()> {
        let request = Request::Remove {
            disk: self.disk,
            piece,
            changes: self.changes,
        };
        self.link.ask(&request, &[]).map(drop)
    }

    fn list(&self) -> io::Result<Vec<PieceId>> {
        let data = self.link.data(&Request::List { disk: self.disk })?;
        let pieces: Option<Vec<_>> = data.chunks(NAMED).map(from_bytes).collect();
        pieces.ok_or_else(|| ErrorKind::InvalidData.into())
    }

    /// Each waits for a round trip and more.
    fn reads_at_once(&self) -> usize {
        16
    }

    /// Its own node does that.
    fn clear(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A piece's name in bytes.
pub(super) fn to_bytes(piece: PieceId) -> [u8; NAMED] {
    let mut bytes = [piece.piece; NAMED];
    bytes[..8].copy_from_slice(&piece.object.to_be_bytes());
    bytes[8..16].copy_from_slice(&piece.stripe.to_be_bytes());
    bytes
}

fn from_bytes(bytes: &[u8]) -> Option<PieceId> {
    let number = |at: usize| {
        let bytes = bytes.get(at..)?.first_chunk()?;
        Some(u64::from_be_bytes(*bytes))
    };
    Some(PieceId {
        object: number(0)?,
        stripe: number(8)?,
        piece: *bytes.get(16)?,
    })
}
