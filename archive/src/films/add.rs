//! Films into the archive.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read};

use sangam_placement::Layout;

use super::packets::{PACKET, SYNC, Scanner};
use super::play::DATAGRAM;
use super::{Film, FilmError, Films, Index, file};
use crate::blocks::Object;

/// Bytes of a film's blocks: whole datagrams, so that a datagram's number says its block.
pub const BLOCK_LEN: u32 = 796 * DATAGRAM as u32;

/// Whether these bytes begin a transport stream: five packets, or all that there are.
#[must_use]
pub fn is_stream(begin: &[u8]) -> bool {
    let mut firsts = begin.iter().step_by(PACKET).take(5);
    begin.len() >= PACKET && firsts.all(|first| *first == SYNC)
}

/// A film on its way through, which is learned meanwhile.
struct Learning<R, P> {
    source: R,
    scanner: Scanner,
    /// What came of a packet.
    partial: Vec<u8>,
    read: u64,
    progress: P,
}

impl<R: Read, P: FnMut(u64)> Read for Learning<R, P> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.source.read(out)?;
        let mut bytes = &out[..len];
        while self.partial.len() + bytes.len() >= PACKET {
            let (head, rest) = bytes.split_at(PACKET - self.partial.len());
            self.partial.extend(head);
            self.scanner.push(&self.partial);
            self.partial.clear();
            bytes = rest;
        }
        self.partial.extend(bytes);
        self.read += len as u64;
        (self.progress)(self.read);
        Ok(len)
    }
}

impl Films {
    /// Adds a film of this name: the whole packets of `bytes` bytes of a transport stream, kept as
    /// `layout` says or as the disks suggest. `progress` hears how many bytes were read.
    ///
    /// # Errors
    /// [`FilmError`]; nothing of it is left, as far as disks let go of it.
    pub fn add(
        &self,
        (name, layout): (&str, Option<Layout>),
        (source, bytes): (impl Read, u64),
        progress: impl FnMut(u64),
    ) -> Result<Film, FilmError> {
        self.found()?;
        // A disk that another node knows gets its share.
        self.newest_roster()?;
        let _lock = self.share()?;
        if self.list()?.iter().any(|film| film.object.name == name) {
            return Err(FilmError::Taken(name.to_owned()));
        }
        let (roster, store) = self.present()?;
        let object = Object {
            id: random(),
            name: name.to_owned(),
            bytes: bytes - bytes % PACKET as u64,
            block_len: BLOCK_LEN,
            layout: layout.unwrap_or_else(|| roster.layout()),
        };
        let mut learning = Learning {
            source,
            scanner: Scanner::default(),
            partial: Vec::new(),
            read: 0,
            progress,
        };
        let id = object.id;
        let done = store.put(&object, &mut learning);
        let done = done.map_err(FilmError::from);
        let index = done.and_then(|()| learning.scanner.finish().ok_or(FilmError::NoClock));
        let kept = index.and_then(|index| {
            if index.entries() > file::ENTRIES_MAX {
                return Err(FilmError::TooLong);
            }
            let film = Film { object, index };
            self.keep(&film).map(|()| film)
        });
        if kept.is_err()
            && let Err(error) = store.remove(id)
        {
            tracing::warn!(%error, "pieces of a film stay; `sangam archive scrub` removes them");
        }
        kept
    }

    /// Learns a film again from its blocks.
    ///
    /// # Errors
    /// A block is lost, or there is no clock.
    pub(super) fn learn(&self, object: &Object) -> Result<Index, FilmError> {
        let (_, store) = self.present()?;
        let mut scanner = Scanner::default();
        for block in 0..object.blocks() {
            let bytes = store.get(object, block)?;
            bytes.chunks(PACKET).for_each(|packet| scanner.push(packet));
        }
        scanner.finish().ok_or(FilmError::NoClock)
    }

    pub(super) fn keep_here(&self, film: &Film) -> Result<(), FilmError> {
        let folder = self.folder();
        let kept = crate::medium::make(&folder).and_then(|()| file::write(&folder, film));
        kept.map_err(FilmError::of(folder.display()))
    }
}

/// The standard library's keys come from the system's random numbers.
pub(super) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
