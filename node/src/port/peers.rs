//! A slab of peers: numbers are small, dense and reused.

use sangam_io::port::PeerKey;

/// Peers by number.
#[derive(Debug)]
pub(super) struct Peers<T> {
    slots: Vec<Option<T>>,
    free: Vec<PeerKey>,
}

impl<T> Default for Peers<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Peers<T> {
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Numbers given so far: every key is below.
    pub(super) fn slots(&self) -> PeerKey {
        self.slots.len() as PeerKey
    }

    pub(super) fn insert(&mut self, peer: T) -> PeerKey {
        if let Some(key) = self.free.pop() {
            self.slots[key as usize] = Some(peer);
            return key;
        }
        self.slots.push(Some(peer));
        (self.slots.len() - 1) as PeerKey
    }

    pub(super) fn remove(&mut self, key: PeerKey) -> Option<T> {
        let peer = self.slots.get_mut(key as usize)?.take()?;
        self.free.push(key);
        Some(peer)
    }

    pub(super) fn get(&self, key: PeerKey) -> Option<&T> {
        self.slots.get(key as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, key: PeerKey) -> Option<&mut T> {
        self.slots.get_mut(key as usize)?.as_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    pub(super) fn keys(&self) -> Vec<PeerKey> {
        let keys = (0..).zip(&self.slots);
        keys.filter(|(_, slot)| slot.is_some())
            .map(|(key, _)| key)
            .collect()
    }
}
