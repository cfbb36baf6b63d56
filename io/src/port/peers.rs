//! A slab of peers: numbers are small, dense and reused.

use super::PeerKey;

/// Peers of a port by their number.
#[derive(Debug)]
pub struct Peers<T> {
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
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers given so far: every key is below.
    #[must_use]
    pub fn slots(&self) -> PeerKey {
        self.slots.len() as PeerKey
    }

    /// Gives a peer a number.
    pub fn insert(&mut self, peer: T) -> PeerKey {
        self.insert_with(|_| peer)
    }

    /// Makes a peer that knows its number.
    pub fn insert_with(&mut self, make: impl FnOnce(PeerKey) -> T) -> PeerKey {
        if let Some(key) = self.free.pop() {
            self.slots[key as usize] = Some(make(key));
            return key;
        }
        let key = self.slots.len() as PeerKey;
        self.slots.push(Some(make(key)));
        key
    }

    /// Takes a peer out; its number is another's from now on.
    pub fn remove(&mut self, key: PeerKey) -> Option<T> {
        let peer = self.slots.get_mut(key as usize)?.take()?;
        self.free.push(key);
        Some(peer)
    }

    /// The peer of this number.
    #[must_use]
    pub fn get(&self, key: PeerKey) -> Option<&T> {
        self.slots.get(key as usize)?.as_ref()
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, key: PeerKey) -> Option<&mut T> {
        self.slots.get_mut(key as usize)?.as_mut()
    }

    /// All peers.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// The numbers of all peers.
    #[must_use]
    pub fn keys(&self) -> Vec<PeerKey> {
        let keys = (0..).zip(&self.slots);
        keys.filter(|(_, slot)| slot.is_some())
            .map(|(key, _)| key)
            .collect()
    }
}
