//! Buffers of one size in one allocation, with a lock-free stack of those that are free.
//!
//! **Layout.** Each buffer follows a cache line of its own with its count and links. The distance
//! between buffers is therefore an odd number of lines, which spreads their first bytes over all
//! cache sets, and counting does not disturb readers of the payload.
//!
//! **Free list.** A stack (last in, first out: the hottest buffer is used next) of indices. Its
//! head holds a 24-bit index and a 40-bit count of pops, so that a head which returns to an
//! earlier index is still seen as changed (ABA): the count would have to wrap during one
//! compare-and-swap, hours at full speed.
//!
//! **Lifetime.** A packet carries no count of its pool. When the last pool handle goes, it marks
//! the list closed; nobody can take any more, and the packets still out find the mark when they
//! come home and count themselves off. The last one frees the memory.

use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering, fence};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

/// A cache line; two would only help adjacent-line prefetchers.
const LINE: usize = 64;
const INDEX_BITS: u32 = 24;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;
/// Index that says the stack is empty.
const NIL: u32 = INDEX_MASK as u32;
/// Index that says no pool handle is left.
const CLOSED: u32 = NIL - 1;

/// Buffers of one size.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Slab {
    head: Head,
    memory: NonNull<u8>,
    count: u32,
    size: usize,
    /// After closing: buffers still out. Below zero while they come home before the closer has
    /// counted them; zero again exactly once.
    out: AtomicI64,
}

/// On a line of its own: every take and return writes it.
#[repr(align(64))]
#[derive(Debug)]
struct Head(AtomicU64);

/// In front of every buffer.
#[repr(C, align(64))]
struct Slot {
    references: AtomicU32,
    /// The slot below, while in the stack.
    next: AtomicU32,
    /// Slots from here to the bottom, while in the stack.
    depth: AtomicU32,
    index: u32,
    slab: NonNull<Slab>,
}

/// One reference to a buffer.
pub(super) struct Buffer(NonNull<Slot>);

// SAFETY: the count is atomic and the bytes are written only by a sole owner (`bytes_mut`).
unsafe impl Send for Buffer {}
// SAFETY: as above; shared access only reads bytes.
unsafe impl Sync for Buffer {}

impl Slab {
    /// Allocates `count` buffers of `size` bytes, zeroed. Freed by [`Slab::close`] and the
    /// buffers' owners.
    pub(super) fn create(count: usize, size: usize) -> NonNull<Self> {
        let count = count.min(CLOSED as usize - 1) as u32;
        let layout = Self::layout(count, size);
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        let Some(memory) = NonNull::new(memory) else {
            handle_alloc_error(layout)
        };
        let slab = NonNull::from(Box::leak(Box::new(Self {
            head: Head(AtomicU64::new(u64::from(NIL))),
            memory,
            count,
            size,
            out: AtomicI64::new(0),
        })));
        for index in (0..count).rev() {
            let slot = Slot {
                references: AtomicU32::new(0),
                next: AtomicU32::new(NIL),
                depth: AtomicU32::new(0),
                index,
                slab,
            };
            // SAFETY: the slot lies in the fresh allocation, nobody else knows it yet, and after
            // the write it is a whole slot outside the stack.
            unsafe {
                let place = slab.as_ref().slot(index);
                place.write(slot);
                Self::give(place);
            }
        }
        slab
    }

    /// The topmost free buffer.
    #[inline]
    pub(super) fn take(&self) -> Option<Buffer> {
        let mut head = self.head.0.load(Ordering::Acquire);
        loop {
            let index = index_of(head);
            if index == NIL {
                return None;
            }
            let place = self.slot(index);
            // SAFETY: slots live as long as the slab. The link may be out of date if another
            // thread takes this slot now; then the exchange fails.
            let next = unsafe { place.as_ref() }.next.load(Ordering::Relaxed);
            let popped = (head >> INDEX_BITS).wrapping_add(1) << INDEX_BITS | u64::from(next);
            match self.head.0.compare_exchange_weak(
                head,
                popped,
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    // SAFETY: as above; the slot is ours now.
                    unsafe { place.as_ref() }
                        .references
                        .store(1, Ordering::Relaxed);
                    return Some(Buffer(place));
                }
                Err(current) => head = current,
            }
        }
    }

    /// How many buffers are free.
    pub(super) fn free(&self) -> usize {
        match index_of(self.head.0.load(Ordering::Acquire)) {
            NIL | CLOSED => 0,
            // SAFETY: slots live as long as the slab.
            index => unsafe { self.slot(index).as_ref() }
                .depth
                .load(Ordering::Relaxed) as usize,
        }
    }

    /// Lets go of the slab: freed now or by the last buffer that comes home.
    ///
    /// # Safety
    /// `slab` comes from [`Slab::create`], is closed once, and is not used afterwards.
    pub(super) unsafe fn close(slab: NonNull<Self>) {
        // SAFETY: alive until freed below.
        let this = unsafe { slab.as_ref() };
        let head = this.head.0.swap(u64::from(CLOSED), Ordering::AcqRel);
        let free = match index_of(head) {
            NIL => 0,
            // SAFETY: slots live as long as the slab.
            index => i64::from(
                unsafe { this.slot(index).as_ref() }
                    .depth
                    .load(Ordering::Relaxed),
            ),
        };
        let out = i64::from(this.count) - free;
        if this.out.fetch_add(out, Ordering::AcqRel) + out == 0 {
            // SAFETY: closed, and every buffer is home.
            unsafe { Self::destroy(slab) };
        }
    }

    /// Puts a slot on the stack. Works on pointers: once the slot is given, the slab may vanish.
    ///
    /// # Safety
    /// The caller owns the slot alone, outside the stack, and does not use it afterwards.
    #[inline]
    unsafe fn give(place: NonNull<Slot>) {
        // SAFETY: ours until the exchange succeeds; the slab outlives buffers that are out.
        let (slot, slab) = unsafe { (place.as_ref(), place.as_ref().slab) };
        // SAFETY: as above.
        let this = unsafe { slab.as_ref() };
        let index = slot.index;
        let mut head = this.head.0.load(Ordering::Acquire);
        loop {
            let below = index_of(head);
            if below == CLOSED {
                if this.out.fetch_sub(1, Ordering::AcqRel) == 1 {
                    // SAFETY: closed, and this was the last one home; see `out`.
                    unsafe { Self::destroy(slab) };
                }
                return;
            }
            let depth = match below {
                NIL => 0,
                // SAFETY: slots live as long as the slab. If `below` is taken meanwhile, the
                // count of pops changes and the exchange fails.
                _ => unsafe { this.slot(below).as_ref() }
                    .depth
                    .load(Ordering::Relaxed),
            };
            slot.next.store(below, Ordering::Relaxed);
            slot.depth.store(depth + 1, Ordering::Relaxed);
            match this.head.0.compare_exchange_weak(
                head,
                head & !INDEX_MASK | u64::from(index),
                Ordering::Release,
                Ordering::Acquire,
            ) {
                Ok(_) => return,
                Err(current) => head = current,
            }
        }
    }

    /// # Safety
    /// Closed, with no buffer out; called once.
    #[cold]
    unsafe fn destroy(slab: NonNull<Self>) {
        // SAFETY: nobody refers to the slab any more, and it was leaked from a box.
        let slab = unsafe { Box::from_raw(slab.as_ptr()) };
        // SAFETY: allocated with this layout.
        unsafe { dealloc(slab.memory.as_ptr(), Self::layout(slab.count, slab.size)) };
    }

    #[inline]
    fn slot(&self, index: u32) -> NonNull<Slot> {
        debug_assert!(index < self.count);
        // SAFETY: indices come from the stack, so the offset lies within the allocation.
        unsafe {
            self.memory
                .byte_add(index as usize * stride(self.size))
                .cast()
        }
    }

    fn layout(count: u32, size: usize) -> Layout {
        let bytes = (count as usize).max(1).checked_mul(stride(size));
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, LINE).ok());
        layout.expect("2^24 buffers of 16 KiB fit into an address space of 64 bits")
    }
}

impl Buffer {
    /// The first `len` bytes.
    ///
    /// # Safety
    /// `len` is at most the size of the buffer; nobody writes while the slice lives.
    #[inline]
    pub(super) unsafe fn bytes(&self, len: usize) -> &[u8] {
        // SAFETY: the bytes behind the slot are initialised (zeroed at first); the caller answers
        // for the rest.
        unsafe { slice::from_raw_parts(self.data(), len) }
    }

    /// The first `len` bytes, to write.
    ///
    /// # Safety
    /// `len` is at most the size of the buffer; this is the only reference to it.
    #[inline]
    pub(super) unsafe fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        // SAFETY: as in `bytes`.
        unsafe { slice::from_raw_parts_mut(self.data(), len) }
    }

    #[inline]
    fn data(&self) -> *mut u8 {
        // SAFETY: the buffer follows its slot in the same allocation.
        unsafe { self.0.cast::<u8>().as_ptr().add(size_of::<Slot>()) }
    }
}

impl Clone for Buffer {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: the slot is alive while it is referred to.
        let slot = unsafe { self.0.as_ref() };
        let before = slot.references.fetch_add(1, Ordering::Relaxed);
        if before > i32::MAX as u32 {
            // Two thousand million forgotten clones: going on would free memory in use.
            std::process::abort();
        }
        Self(self.0)
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the slot is alive while it is referred to.
        let references = unsafe { &self.0.as_ref().references };
        // A sole owner needs no read-modify-write: nobody else can be cloning.
        if references.load(Ordering::Acquire) != 1 {
            if references.fetch_sub(1, Ordering::Release) != 1 {
                return;
            }
            fence(Ordering::Acquire);
        }
        // SAFETY: this was the last reference.
        unsafe { Slab::give(self.0) };
    }
}

fn index_of(head: u64) -> u32 {
    (head & INDEX_MASK) as u32
}

const fn stride(size: usize) -> usize {
    size_of::<Slot>() + size.next_multiple_of(LINE)
}
