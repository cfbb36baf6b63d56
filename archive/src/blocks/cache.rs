//! One cache of blocks for all streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Blocks that were read, shared by everybody who plays them. A block that somebody holds stays,
/// be they more than there is room for; of the others the one goes that was wanted longest ago.
#[derive(Debug)]
pub struct Cache {
    blocks_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    blocks: HashMap<(u64, u64), Kept>,
    /// Counts what was wanted.
    clock: u64,
    hits: u64,
    /// Bytes that were read because they were not there.
    read: u64,
}

#[derive(Debug)]
struct Kept {
    bytes: Arc<Vec<u8>>,
    /// When it was wanted last.
    wanted: u64,
}

impl Cache {
    /// Room for so many blocks, with those that somebody holds.
    #[must_use]
    pub fn new(blocks_max: usize) -> Self {
        Self {
            blocks_max,
            inner: Mutex::default(),
        }
    }

    /// The `block`th of an object, read by `read` if it is not there.
    ///
    /// # Errors
    /// As `read`.
    pub fn get<E>(
        &self,
        (object, block): (u64, u64),
        read: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Arc<Vec<u8>>, E> {
        if let Some(bytes) = self.find((object, block)) {
            return Ok(bytes);
        }
        // Two who want the same at once may both read it; nobody waits for another's disk.
        let bytes = Arc::new(read()?);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.read += bytes.len() as u64;
        let kept = Kept {
            bytes: bytes.clone(),
            wanted: inner.clock,
        };
        inner.blocks.insert((object, block), kept);
        inner.evict(self.blocks_max);
        Ok(bytes)
    }

    /// Lets go of an object's blocks; who holds one keeps it.
    pub fn forget(&self, object: u64) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.blocks.retain(|(of, _), _| *of != object);
    }

    /// Who holds a block now.
    #[must_use]
    pub fn users(&self, object: u64, block: u64) -> usize {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let found = inner.blocks.get(&(object, block));
        found.map_or(0, |kept| Arc::strong_count(&kept.bytes) - 1)
    }

    /// Blocks kept, and how often one was there when it was wanted.
    #[must_use]
    pub fn counts(&self) -> (usize, u64) {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        (inner.blocks.len(), inner.hits)
    }

    /// Bytes that were read because they were not there.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.read
    }

    fn find(&self, key: (u64, u64)) -> Option<Arc<Vec<u8>>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.clock += 1;
        let clock = inner.clock;
        let kept = inner.blocks.get_mut(&key)?;
        kept.wanted = clock;
        let bytes = kept.bytes.clone();
        inner.hits += 1;
        Some(bytes)
    }
}

impl Inner {
    fn evict(&mut self, blocks_max: usize) {
        while self.blocks.len() > blocks_max {
            let idle = self.blocks.iter();
            let idle = idle.filter(|(_, kept)| Arc::strong_count(&kept.bytes) == 1);
            let oldest = idle.min_by_key(|(_, kept)| kept.wanted);
            let Some(key) = oldest.map(|(key, _)| *key) else {
                return;
            };
            self.blocks.remove(&key);
        }
    }
}
