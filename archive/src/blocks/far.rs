//! A bucket that keeps pieces, each an object of its own: `OBJECT/STRIPE-PIECE` as in a folder.

use std::io;

use super::disk::{BlockDisk, name, parse};
use super::piece::PieceId;
use crate::bucket::Bucket;

fn key(id: PieceId) -> String {
    format!("{:016x}/{}", id.object, name(id))
}

impl BlockDisk for Bucket {
    fn put(&self, id: PieceId, bytes: &[u8]) -> io::Result<()> {
        self.put(&key(id), bytes.to_vec())
    }

    fn get(&self, id: PieceId) -> io::Result<Vec<u8>> {
        self.get(&key(id))
    }

    fn remove(&self, id: PieceId) -> io::Result<()> {
        self.remove(&key(id))
    }

    fn list(&self) -> io::Result<Vec<PieceId>> {
        let found = self.list()?.into_iter().filter_map(|(key, _)| {
            let (object, name) = key.split_once('/')?;
            parse(u64::from_str_radix(object, 16).ok()?, name)
        });
        Ok(found.collect())
    }

    /// Each waits for a round trip and more.
    fn reads_at_once(&self) -> usize {
        16
    }

    fn clear(&self) -> io::Result<()> {
        // An object is there whole or not at all.
        Ok(())
    }
}
