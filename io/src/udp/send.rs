//! Sending prepared messages (sendmmsg): partial sends, failures, segments that a path refuses.

use core::ffi::c_int;
use core::ops::AddAssign;
use core::{mem, ptr, slice};
use std::io;

use libc::{iovec, mmsghdr};
use sangam_model::limits::BURST_MAX;

use super::UdpSocket;
use super::control::SEGMENT_SPACE;

/// Messages of one system call. Longer calls save less than a hundredth and delay what the
/// thread does next.
pub(super) const CHUNK: usize = 64;
/// Bytes of one segmented message, less than the 65,507 an IPv4 datagram holds.
const SEGMENTED_MAX: usize = 65_000;
/// Refused segmented messages in a row after which segmenting pauses.
const REFUSALS_MAX: u32 = 8;
/// Runs that go out packet by packet before segmenting is tried again.
const PAUSE: u32 = 4_096;

/// What became of the packets of one or more sends. Add them up as you like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendReport {
    /// Packets the kernel took.
    pub packets: u64,
    /// Messages that carried them: fewer than packets where bursts were segmented by the kernel.
    pub messages: u64,
    /// Bytes of payload the kernel took.
    pub bytes: u64,
    /// Packets not sent, and not tried, because the socket's buffer was full.
    pub would_block: u64,
    /// Packets their destination did not get for another reason; the next four are among them.
    pub errors: u64,
    /// Longer than the path carries.
    pub oversized: u64,
    /// Nobody listens there.
    pub refused: u64,
    /// No route.
    pub unreachable: u64,
    /// Forbidden, for example by a firewall or because it is a broadcast address.
    pub denied: u64,
    /// Bursts that had to leave packet by packet, as the path takes no segmented message.
    pub unsegmented: u64,
}

/// Whether bursts may be segmented by the kernel, learned from how it goes.
#[derive(Debug, Default)]
pub(super) struct Segmentation {
    refusals: u32,
    pause: u32,
}

impl SendReport {
    fn fail(&mut self, packets: u64, error: &io::Error) {
        self.errors += packets;
        match error.raw_os_error() {
            Some(libc::EMSGSIZE) => self.oversized += packets,
            Some(libc::ECONNREFUSED) => self.refused += packets,
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN) => {
                self.unreachable += packets;
            }
            Some(libc::EPERM | libc::EACCES) => self.denied += packets,
            _ => {}
        }
    }
}

impl AddAssign for SendReport {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.would_block += other.would_block;
        self.errors += other.errors;
        self.oversized += other.oversized;
        self.refused += other.refused;
        self.unreachable += other.unreachable;
        self.denied += other.denied;
        self.unsegmented += other.unsegmented;
    }
}

impl Segmentation {
    /// Whether a new run may hold several packets.
    pub(super) fn allowed(&mut self) -> bool {
        self.pause = self.pause.saturating_sub(1);
        self.pause == 0
    }

    fn pauses(&self) -> bool {
        self.pause > 0
    }

    pub(super) fn refused(&mut self) {
        self.refusals += 1;
        if self.refusals >= REFUSALS_MAX {
            self.refusals = 0;
            self.pause = PAUSE;
        }
    }
}

/// Whether a packet may follow in a segmented message of `count` packets and `bytes` bytes whose
/// segments have `size` bytes. A shorter one may, but ends it.
pub(super) fn fits(packet: usize, size: usize, (count, bytes): (usize, usize)) -> bool {
    (1..=size).contains(&packet) && count < BURST_MAX && bytes + packet <= SEGMENTED_MAX
}

/// A header that says nothing.
pub(super) fn empty_header() -> mmsghdr {
    // SAFETY: a plain C structure of integers and pointers, for which zero is a value.
    unsafe { mem::zeroed() }
}

pub(super) fn slice_of(packet: &[u8]) -> iovec {
    iovec {
        iov_base: packet.as_ptr().cast_mut().cast(),
        iov_len: packet.len(),
    }
}

/// Sends messages of one packet for each slice; several packets are segmented by a control
/// message of [`SEGMENT_SPACE`] bytes that comes last. Returns how many messages were dealt
/// with: all of them unless the socket's buffer is full. What was not sent then are the last
/// packets of all, which may begin in the middle of a message.
///
/// # Safety
/// Every pointer in the headers is valid for reading the length stated beside it.
pub(super) unsafe fn transmit(
    socket: &UdpSocket,
    headers: &mut [mmsghdr],
    state: &mut Segmentation,
    report: &mut SendReport,
) -> usize {
    let mut done = 0;
    while done < headers.len() {
        let rest = &mut headers[done..];
        if state.pauses() && rest[0].msg_hdr.msg_iovlen > 1 {
            // SAFETY: as for this function.
            let (_, left) = unsafe { send_singly(socket, &rest[0], report) };
            if left > 0 {
                report.would_block += left + packets(&rest[1..]);
                return done;
            }
            done += 1;
            continue;
        }
        // SAFETY: `rest` is a valid array of headers, whose pointers the caller answers for.
        let sent = unsafe { libc::sendmmsg(socket.raw(), rest.as_mut_ptr(), rest.len() as _, 0) };
        if let Ok(sent @ 1..) = usize::try_from(sent) {
            count(&rest[..sent], state, report);
            done += sent;
            continue;
        }
        // The failure is the first message's: later ones only shorten the count.
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => continue,
            Some(libc::EAGAIN) => break,
            // UDP_SEGMENT: EINVAL or EMSGSIZE past the path's MTU, EIO without checksum offload.
            Some(libc::EINVAL | libc::EMSGSIZE | libc::EIO | libc::EOPNOTSUPP)
                if rest[0].msg_hdr.msg_iovlen > 1 =>
            {
                // SAFETY: as for this function.
                let (any, left) = unsafe { send_singly(socket, &rest[0], report) };
                if any {
                    state.refused();
                }
                if left > 0 {
                    report.would_block += left + packets(&rest[1..]);
                    return done;
                }
            }
            _ => report.fail(rest[0].msg_hdr.msg_iovlen as u64, &error),
        }
        done += 1;
    }
    report.would_block += packets(&headers[done..]);
    done
}

fn packets(messages: &[mmsghdr]) -> u64 {
    let counts = messages.iter().map(|left| left.msg_hdr.msg_iovlen as u64);
    counts.sum()
}

#[inline]
fn count(sent: &[mmsghdr], state: &mut Segmentation, report: &mut SendReport) {
    report.messages += sent.len() as u64;
    for header in sent {
        report.packets += header.msg_hdr.msg_iovlen as u64;
        report.bytes += u64::from(header.msg_len);
    }
    if sent[0].msg_hdr.msg_iovlen > 1 {
        state.refusals = 0;
    }
}

/// Sends the packets of a segmented message one by one. Whether any was sent, which puts the
/// blame for the refusal on segmenting and not on the destination; and how many are left as the
/// socket's buffer is full.
///
/// # Safety
/// As for [`transmit`].
#[cold]
unsafe fn send_singly(
    socket: &UdpSocket,
    header: &mmsghdr,
    report: &mut SendReport,
) -> (bool, u64) {
    let mut message = header.msg_hdr;
    message.msg_controllen -= SEGMENT_SPACE;
    if message.msg_controllen == 0 {
        message.msg_control = ptr::null_mut();
    }
    // SAFETY: the header holds an array of that many slices.
    let slices = unsafe { slice::from_raw_parts_mut(message.msg_iov, message.msg_iovlen) };
    report.unsegmented += 1;
    let mut any = false;
    let mut left = slices.len() as u64;
    for one in slices {
        message.msg_iov = one;
        message.msg_iovlen = 1;
        // SAFETY: as for this function.
        match unsafe { send_one(socket.raw(), &message) } {
            Ok(bytes) => {
                any = true;
                report.packets += 1;
                report.messages += 1;
                report.bytes += bytes;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => report.fail(1, &error),
        }
        left -= 1;
    }
    (any, left)
}

/// # Safety
/// Every pointer in the message is valid for reading the length stated beside it.
unsafe fn send_one(fd: c_int, message: &libc::msghdr) -> io::Result<u64> {
    loop {
        // SAFETY: as for this function.
        let sent = unsafe { libc::sendmsg(fd, message, 0) };
        match u64::try_from(sent) {
            Ok(bytes) => return Ok(bytes),
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
}
