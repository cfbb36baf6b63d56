//! An allocator that counts: how tests show that a path does not allocate.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::alloc::System;

/// Bytes of a thread's name in the kernel, its end included.
const NAME_LEN: usize = 16;

thread_local! {
    /// Whether this thread is counted, once that is known.
    static WATCHED: Cell<Option<bool>> = const { Cell::new(None) };
}

/// The system's allocator. From [`CountingAllocator::start`] on it counts what threads of certain
/// names ask of it.
///
/// ```
/// use sangam_io::alloc::CountingAllocator;
///
/// #[global_allocator]
/// static ALLOCATOR: CountingAllocator = CountingAllocator::new(&["worker"]);
///
/// let allocate = || drop(std::hint::black_box(Box::new(7)));
/// ALLOCATOR.start();
/// allocate();
/// let worker = std::thread::Builder::new().name("worker-1".into());
/// worker.spawn(allocate)?.join().expect("no panic");
/// assert!(ALLOCATOR.stop() >= 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct CountingAllocator {
    names: &'static [&'static str],
    counting: AtomicBool,
    allocations: AtomicU64,
}

impl CountingAllocator {
    /// Counts for threads whose names start so. Of longer names the kernel keeps 15 bytes.
    #[must_use]
    pub const fn new(names: &'static [&'static str]) -> Self {
        Self {
            names,
            counting: AtomicBool::new(false),
            allocations: AtomicU64::new(0),
        }
    }

    /// Counts from zero. A thread that has no name of its own yet is never counted: start once
    /// those of interest run.
    pub fn start(&self) {
        self.allocations.store(0, Ordering::SeqCst);
        self.counting.store(true, Ordering::SeqCst);
    }

    /// Counts no more, and tells how many allocations and reallocations there were.
    pub fn stop(&self) -> u64 {
        self.counting.store(false, Ordering::SeqCst);
        self.allocations.load(Ordering::SeqCst)
    }

    fn count(&self) {
        if !self.counting.load(Ordering::Relaxed) {
            return;
        }
        // A thread at its end has no such cell any more.
        let watched = WATCHED.try_with(|watched| {
            watched.get().unwrap_or_else(|| {
                let found = self.is_watched();
                watched.set(Some(found));
                found
            })
        });
        if watched == Ok(true) {
            self.allocations.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Asks the kernel, as the standard library's handle of a thread may have to be allocated.
    fn is_watched(&self) -> bool {
        let mut name = [0_u8; NAME_LEN];
        // SAFETY: the kernel writes at most 16 bytes, which is what the buffer holds.
        let result = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        result == 0
            && self
                .names
                .iter()
                .any(|watched| name.starts_with(watched.as_bytes()))
    }
}

// SAFETY: every call goes to the system's allocator unchanged; counting neither allocates nor
// panics.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count();
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        self.count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, len) }
    }
}
