//! Receiving many datagrams with one call (recvmmsg), joined ones split again (UDP_GRO).

use core::ptr;
use std::io;
use std::net::{IpAddr, SocketAddr};

use libc::{iovec, mmsghdr};

use super::control::{Control, Received};
use super::send::empty_header;
use super::{Address, UdpSocket};

/// Bytes of a line of the cache.
const LINE: usize = 64;
/// Rooms that lie a power of two apart share the few places that a cache has for their first
/// lines, and short datagrams fill nothing else.
const STAGGER: usize = 5 * LINE;

/// Reused room for the datagrams of one [`UdpSocket::recv`].
pub struct RecvBatch {
    /// Headers with pointers into the vectors below, which keep their length for ever.
    headers: Vec<mmsghdr>,
    _slices: Vec<iovec>,
    names: Vec<Address>,
    controls: Vec<Control>,
    data: Vec<u8>,
    bytes_each: usize,
    /// From one datagram's room to the next.
    stride: usize,
    /// Messages of the last call.
    count: usize,
    truncated: u64,
}

/// One datagram as it was sent.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The payload.
    pub bytes: &'a [u8],
    /// Who sent it.
    pub source: SocketAddr,
    /// The local address it was sent to, if the socket asked for it.
    pub local: Option<IpAddr>,
    /// Packets this socket had no room for since it was opened, modulo 2^32; `None` if there
    /// were none or the socket did not ask.
    pub overflow: Option<u32>,
}

/// Walks the datagrams of a batch.
#[derive(Clone)]
struct Datagrams<'a> {
    batch: &'a RecvBatch,
    next: usize,
    /// What is left of the present message: `template.bytes` is the rest.
    template: Option<Datagram<'a>>,
    segment: usize,
}

// SAFETY: the pointers lead into vectors that move along with the batch.
unsafe impl Send for RecvBatch {}

impl RecvBatch {
    /// Room for `messages` datagrams of up to `bytes_each` bytes; longer ones are dropped and
    /// counted. A socket with GRO needs 65,535 for each.
    #[must_use]
    pub fn new(messages: usize, bytes_each: usize) -> Self {
        let (messages, bytes_each) = (messages.max(1), bytes_each.max(1));
        let stride = bytes_each.next_multiple_of(LINE) + STAGGER;
        let mut data = vec![0; messages * stride];
        let mut names = vec![Address::room(); messages];
        let mut controls = vec![Control::new(); messages];
        // All pointers come from the start of a vector, so that none voids another.
        let bytes = data.as_mut_ptr();
        let slice = |n| iovec {
            iov_base: bytes.wrapping_add(n * stride).cast(),
            iov_len: bytes_each,
        };
        let mut slices: Vec<iovec> = (0..messages).map(slice).collect();
        let (name, control) = (names.as_mut_ptr(), controls.as_mut_ptr());
        let slice = slices.as_mut_ptr();
        let headers = (0..messages).map(|n| {
            let mut header = empty_header();
            header.msg_hdr.msg_name = name.wrapping_add(n).cast();
            header.msg_hdr.msg_namelen = Address::room().len();
            header.msg_hdr.msg_iov = slice.wrapping_add(n);
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.wrapping_add(n).cast();
            header.msg_hdr.msg_controllen = Control::ROOM;
            header
        });
        Self {
            headers: headers.collect(),
            _slices: slices,
            names,
            controls,
            data,
            bytes_each,
            stride,
            count: 0,
            truncated: 0,
        }
    }

    /// The datagrams of the last [`UdpSocket::recv`], in order of arrival.
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        Datagrams {
            batch: self,
            next: 0,
            template: None,
            segment: 0,
        }
    }

    /// Messages one call can take.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.headers.len()
    }

    /// Datagrams dropped so far because they were longer than the room for one.
    #[must_use]
    pub fn truncated(&self) -> u64 {
        self.truncated
    }

    /// Undoes what the kernel wrote over in the headers it used.
    fn reset(&mut self) {
        for header in &mut self.headers[..self.count] {
            header.msg_hdr.msg_namelen = Address::room().len();
            header.msg_hdr.msg_controllen = Control::ROOM;
        }
        self.count = 0;
    }

    fn message(&self, n: usize) -> Option<(Datagram<'_>, usize)> {
        let header = &self.headers[n];
        if header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
            return None;
        }
        let mut address = self.names[n];
        address.set_len(header.msg_hdr.msg_namelen);
        let Received {
            segment,
            local,
            overflow,
        } = self.controls[n].read(header.msg_hdr.msg_controllen);
        let room = &self.data[n * self.stride..][..self.bytes_each];
        let bytes = &room[..room.len().min(header.msg_len as usize)];
        let datagram = Datagram {
            bytes,
            source: address.into(),
            local,
            overflow,
        };
        Some((datagram, segment.unwrap_or(usize::MAX)))
    }
}

impl<'a> Iterator for Datagrams<'a> {
    type Item = Datagram<'a>;

    #[inline]
    fn next(&mut self) -> Option<Datagram<'a>> {
        loop {
            if let Some(mut datagram) = self.template.take() {
                if datagram.bytes.len() > self.segment {
                    let (bytes, rest) = datagram.bytes.split_at(self.segment);
                    datagram.bytes = rest;
                    self.template = Some(datagram);
                    datagram.bytes = bytes;
                }
                return Some(datagram);
            }
            if self.next == self.batch.count {
                return None;
            }
            if let Some((datagram, segment)) = self.batch.message(self.next) {
                self.template = Some(datagram);
                self.segment = segment;
            }
            self.next += 1;
        }
    }
}

impl UdpSocket {
    /// Receives what has arrived, up to the batch's room, without waiting. The number of
    /// messages, each one datagram or several joined ones; 0 if nothing is there.
    ///
    /// # Errors
    /// What the kernel reports about the socket; errors of earlier sends do not appear here.
    pub fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.reset();
        let headers = batch.headers.as_mut_ptr();
        let max = batch.headers.len() as _;
        // SAFETY: every header points to room of the length it states, which lives in the batch;
        // the batch is borrowed alone for the call.
        let result = unsafe {
            libc::recvmmsg(
                self.raw(),
                headers,
                max,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        let Ok(count) = usize::try_from(result) else {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                _ => Err(error),
            };
        };
        batch.count = count;
        for header in &batch.headers[..count] {
            batch.truncated += u64::from(header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0);
        }
        Ok(count)
    }
}
