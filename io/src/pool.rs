//! Shared packet buffers: taken, filled, frozen, cloned by count, returned by their last owner.
//!
//! All memory is allocated by [`Pool::new`]; after that a buffer costs one compare-and-swap to
//! take and one to return, a clone one addition.

mod slab;

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use std::sync::Arc;

use sangam_model::limits::{EVENT_LEN_MAX, EVENT_LEN_SMALL};
use sangam_wire::{Header, WireError};

use slab::{Buffer, Slab};

/// A fixed stock of small ([`EVENT_LEN_SMALL`]) and large ([`EVENT_LEN_MAX`]) buffers.
///
/// Cheap to clone and shared by threads. Packets may outlive every handle of their pool: the
/// memory is freed by whoever comes last.
#[derive(Clone, Debug)]
pub struct Pool(Arc<Shelves>);

#[derive(Debug)]
struct Shelves {
    small: NonNull<Slab>,
    large: NonNull<Slab>,
}

/// A buffer with one owner, to be filled.
pub struct PacketMut {
    /// The only reference to its buffer.
    buffer: Buffer,
    len: u32,
}

/// A finished packet. A clone is a count; the last drop returns the buffer to its pool.
#[derive(Clone)]
pub struct Packet {
    buffer: Buffer,
    len: u32,
}

// SAFETY: a slab is made for use by many threads: all that changes in it is atomic.
unsafe impl Send for Shelves {}
// SAFETY: as above.
unsafe impl Sync for Shelves {}

impl Pool {
    /// Allocates all it will ever use: `small` and `large` buffers (at most 16,777,000 each).
    #[must_use]
    pub fn new(small: usize, large: usize) -> Self {
        Self(Arc::new(Shelves {
            small: Slab::create(small, EVENT_LEN_SMALL),
            large: Slab::create(large, EVENT_LEN_MAX),
        }))
    }

    /// A packet of `len` bytes with unspecified contents. `None` if all buffers are out or no
    /// buffer is that large. A large buffer stands in when the small ones are out.
    #[inline]
    #[must_use]
    pub fn take(&self, len: usize) -> Option<PacketMut> {
        let buffer = if len <= EVENT_LEN_SMALL {
            self.small().take().or_else(|| self.large().take())?
        } else if len <= EVENT_LEN_MAX {
            self.large().take()?
        } else {
            return None;
        };
        let len = len as u32;
        Some(PacketMut { buffer, len })
    }

    /// A packet with a copy of `bytes`. `None` as in [`Pool::take`].
    #[inline]
    #[must_use]
    pub fn copy(&self, bytes: &[u8]) -> Option<PacketMut> {
        let mut packet = self.take(bytes.len())?;
        packet.copy_from_slice(bytes);
        Some(packet)
    }

    /// How many small and large buffers are left.
    #[must_use]
    pub fn free(&self) -> (usize, usize) {
        (self.small().free(), self.large().free())
    }

    fn small(&self) -> &Slab {
        // SAFETY: slabs live until `Shelves` is dropped, which this handle prevents.
        unsafe { self.0.small.as_ref() }
    }

    fn large(&self) -> &Slab {
        // SAFETY: as above.
        unsafe { self.0.large.as_ref() }
    }
}

impl Drop for Shelves {
    fn drop(&mut self) {
        for slab in [self.small, self.large] {
            // SAFETY: made by `Slab::create` and closed only here; no handle is left to take.
            unsafe { Slab::close(slab) };
        }
    }
}

impl PacketMut {
    /// Makes the packet shorter; no effect if it is.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(u32::try_from(len).unwrap_or(u32::MAX));
    }

    /// Finishes the packet, so that it can be shared.
    #[inline]
    #[must_use]
    pub fn freeze(self) -> Packet {
        Packet {
            buffer: self.buffer,
            len: self.len,
        }
    }
}

impl Deref for PacketMut {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` never exceeds the capacity, and only this owner could write.
        unsafe { self.buffer.bytes(self.len as usize) }
    }
}

impl DerefMut for PacketMut {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` never exceeds the capacity; a `PacketMut` holds the only reference to its
        // buffer, as it cannot be cloned.
        unsafe { self.buffer.bytes_mut(self.len as usize) }
    }
}

impl Packet {
    /// Reads the event header at the front.
    ///
    /// # Errors
    /// As [`Header::decode`].
    #[inline]
    pub fn header(&self) -> Result<Header, WireError> {
        Header::decode(self)
    }
}

impl Deref for Packet {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` never exceeds the capacity, and nobody writes to a frozen packet.
        unsafe { self.buffer.bytes(self.len as usize) }
    }
}

impl AsRef<[u8]> for Packet {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for PacketMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PacketMut({} bytes)", self.len)
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packet({} bytes)", self.len)
    }
}
