//! Waking a sleeping thread, for the price of a fence while it is awake.
//!
//! The sleeper arms, looks at its queues once more, and only then waits for its descriptor; a
//! producer fills a queue first and wakes after that. Each side writes and then, behind a
//! sequentially consistent fence, reads what the other wrote (Dekker), so at least one of them
//! sees the other: either the sleeper finds the item or the producer finds it asleep.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, Ordering, fence};
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::sys::check;

/// Wakes one [`Sleeper`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Waker(Arc<Shared>);

/// The end of the thread that sleeps. Its descriptor becomes readable when it is woken.
#[derive(Debug)]
pub struct Sleeper {
    shared: Arc<Shared>,
    /// A waker took the flag but its write to the descriptor had not arrived at the last drain.
    owed: bool,
}

#[derive(Debug)]
struct Shared {
    asleep: AtomicBool,
    event: OwnedFd,
}

/// A sleeper that is awake, and the first of its wakers.
///
/// # Errors
/// When the process has no descriptor left.
pub fn pair() -> io::Result<(Waker, Sleeper)> {
    // SAFETY: no pointers are passed.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
    // SAFETY: the descriptor is new and ours alone.
    let event = unsafe { OwnedFd::from_raw_fd(fd) };
    let shared = Arc::new(Shared {
        asleep: AtomicBool::new(false),
        event,
    });
    let waker = Waker(shared.clone());
    Ok((
        waker,
        Sleeper {
            shared,
            owed: false,
        },
    ))
}

impl Waker {
    /// Wakes the sleeper if it sleeps; call it once after filling its queues.
    #[inline]
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.0.asleep.load(Ordering::Relaxed) {
            self.ring();
        }
    }

    #[cold]
    fn ring(&self) {
        // Of several wakers one pays for the system call.
        if self.0.asleep.swap(false, Ordering::Relaxed) {
            let one = 1_u64.to_ne_bytes();
            // SAFETY: eight readable bytes. It cannot fail: the counter is drained long before
            // it reaches its end.
            unsafe { libc::write(self.0.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        }
    }
}

impl Sleeper {
    /// Another waker for this sleeper.
    #[must_use]
    pub fn waker(&self) -> Waker {
        Waker(self.shared.clone())
    }

    /// The descriptor to wait for, level-triggered, for reading.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.event.as_fd()
    }

    /// Announces sleep. The caller must look at its queues again before it waits, and call
    /// [`Sleeper::disarm`] when it goes on.
    #[inline]
    pub fn arm(&mut self) {
        self.shared.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Ends the sleep: no waker pays for a system call any more. Whether one had rung.
    #[inline]
    pub fn disarm(&mut self) -> bool {
        let rung = !self.shared.asleep.swap(false, Ordering::Relaxed);
        if rung || self.owed {
            self.owed = !self.drain();
        }
        rung
    }

    /// Waits for a waker by itself, without a poller; `None` waits for ever. Call it between
    /// [`Sleeper::arm`] and [`Sleeper::disarm`].
    ///
    /// # Errors
    /// Only what `ppoll` reports as a mistake of ours; a signal just ends the wait.
    pub fn wait(&self, timeout: Option<Duration>) -> io::Result<()> {
        let mut fd = libc::pollfd {
            fd: self.shared.event.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let limit = timeout.map(timespec);
        let limit = limit
            .as_ref()
            .map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: one pollfd, and a timespec that lives through the call or null.
        match check(unsafe { libc::ppoll(&mut fd, 1, limit, core::ptr::null()) }) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether there was something to read.
    fn drain(&self) -> bool {
        let mut count = [0_u8; 8];
        let fd: c_int = self.shared.event.as_raw_fd();
        // SAFETY: eight writable bytes.
        unsafe { libc::read(fd, count.as_mut_ptr().cast(), count.len()) > 0 }
    }
}

/// A duration as the kernel wants it.
pub(crate) fn timespec(duration: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(duration.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
