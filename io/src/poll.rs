//! Readiness of descriptors (epoll), with timeouts in microseconds.

use core::cell::Cell;
use core::ffi::c_int;
use core::time::Duration;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::sys::check;
use crate::wake::timespec;

/// What to be told about a descriptor, for as long as it holds (level-triggered).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// It can be read, or it ended.
    Read,
    /// The same, or it can be written.
    ReadWrite,
}

/// One ready descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// As given to [`Poller::add`].
    pub token: u64,
    /// There is something to read: bytes, an end or an error.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
    /// The peer is gone or the descriptor failed.
    pub closed: bool,
}

/// Room for the events of one [`Poller::wait`].
#[derive(Debug)]
pub struct Events {
    ready: Vec<libc::epoll_event>,
    count: usize,
}

/// A set of descriptors of one thread.
#[derive(Debug)]
pub struct Poller {
    fd: OwnedFd,
    /// Cleared when the kernel lacks `epoll_pwait2` (before 5.11).
    precise: Cell<bool>,
}

impl Events {
    /// Room for `capacity` events; more wait for the next turn.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        let empty = libc::epoll_event { events: 0, u64: 0 };
        Self {
            ready: vec![empty; capacity.max(1)],
            count: 0,
        }
    }

    /// The events of the last wait.
    pub fn iter(&self) -> impl Iterator<Item = Event> {
        self.ready[..self.count].iter().map(|event| {
            let bits = event.events as c_int;
            let closed = bits & (libc::EPOLLERR | libc::EPOLLHUP) != 0;
            Event {
                token: event.u64,
                readable: closed || bits & (libc::EPOLLIN | libc::EPOLLRDHUP) != 0,
                writable: bits & libc::EPOLLOUT != 0,
                closed,
            }
        })
    }
}

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor is new and ours alone.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self {
            fd,
            precise: Cell::new(true),
        })
    }

    /// The epoll descriptor itself: readable when an event waits, so that pollers can be nested.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Watches a descriptor until it is removed or closed.
    ///
    /// # Errors
    /// When it is watched already or cannot be.
    pub fn add(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, Some((token, interest)))
    }

    /// Changes token and interest.
    ///
    /// # Errors
    /// When it is not watched.
    pub fn modify(&self, fd: BorrowedFd<'_>, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, Some((token, interest)))
    }

    /// Stops watching a descriptor.
    ///
    /// # Errors
    /// When it is not watched.
    pub fn remove(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, None)
    }

    /// Waits until something is ready or `timeout` has passed (`None`: for ever), and says how
    /// many events there are. A signal ends the wait with none.
    ///
    /// # Errors
    /// Only what the kernel reports as a mistake of ours.
    pub fn wait(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<usize> {
        events.count = 0;
        let mut result = self.wait_once(events, timeout);
        if let Err(error) = &result
            && self.precise.get()
            && matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
        {
            self.precise.set(false);
            result = self.wait_once(events, timeout);
        }
        match result {
            Ok(count) => events.count = count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(events.count)
    }

    fn wait_once(&self, events: &mut Events, timeout: Option<Duration>) -> io::Result<usize> {
        let fd = self.fd.as_raw_fd();
        let room = events.ready.as_mut_ptr();
        let max = c_int::try_from(events.ready.len()).unwrap_or(c_int::MAX);
        let result = if self.precise.get() {
            let limit = timeout.map(timespec);
            let limit = limit
                .as_ref()
                .map_or(core::ptr::null(), core::ptr::from_ref);
            let mask = core::ptr::null::<libc::sigset_t>();
            // By number, as glibc before 2.35 has no name for it.
            // SAFETY: room for `max` events, a timespec that lives through the call or null, and
            // no signal mask.
            unsafe { libc::syscall(libc::SYS_epoll_pwait2, fd, room, max, limit, mask, 0_usize) }
        } else {
            // SAFETY: room for `max` events.
            unsafe { libc::epoll_wait(fd, room, max, timeout.map_or(-1, millis)) }.into()
        };
        usize::try_from(result).map_err(|_| io::Error::last_os_error())
    }

    fn control(
        &self,
        operation: c_int,
        fd: BorrowedFd<'_>,
        want: Option<(u64, Interest)>,
    ) -> io::Result<()> {
        let (token, bits) = match want {
            Some((token, Interest::Read)) => (token, libc::EPOLLIN | libc::EPOLLRDHUP),
            Some((token, Interest::ReadWrite)) => {
                (token, libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLOUT)
            }
            None => (0, 0),
        };
        let mut event = libc::epoll_event {
            events: bits as u32,
            u64: token,
        };
        let (set, fd) = (self.fd.as_raw_fd(), fd.as_raw_fd());
        // SAFETY: both descriptors are open while borrowed; `event` lives through the call.
        check(unsafe { libc::epoll_ctl(set, operation, fd, &mut event) }).map(drop)
    }
}

/// Rounded up: waking early would only mean another round.
fn millis(timeout: Duration) -> c_int {
    c_int::try_from(timeout.as_micros().div_ceil(1_000)).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn an_old_kernel_waits_by_milliseconds() {
        let poller = Poller::new().unwrap();
        poller.precise.set(false);
        let timeout = Duration::from_micros(1_200);
        let before = Instant::now();
        let count = poller.wait(&mut Events::with_capacity(1), Some(timeout));
        assert_eq!(count.unwrap(), 0);
        assert!(before.elapsed() >= timeout);
        assert_eq!(millis(timeout), 2);
        assert_eq!(millis(Duration::MAX), c_int::MAX);
    }
}
