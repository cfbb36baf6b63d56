//! Control messages (`cmsghdr`) beside a datagram, written and read as bytes.

use core::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Offset of the data behind a `cmsghdr`.
const HEAD: usize = align(size_of::<libc::cmsghdr>());
/// Room for the segment size, a packet info of either family and the overflow counter.
const ROOM: usize = 128;

/// Bytes that [`Control::segment`] adds.
pub(super) const SEGMENT_SPACE: usize = space(size_of::<u16>());

/// A buffer for control messages.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(super) struct Control {
    bytes: [u8; ROOM],
    len: usize,
}

/// What the kernel said about one received message.
#[derive(Clone, Copy, Default)]
pub(super) struct Received {
    /// Length of each segment but the last, if packets were joined.
    pub(super) segment: Option<usize>,
    pub(super) local: Option<IpAddr>,
    pub(super) overflow: Option<u32>,
}

impl Control {
    pub(super) const ROOM: usize = ROOM;

    pub(super) const fn new() -> Self {
        Self {
            bytes: [0; ROOM],
            len: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    /// Cuts the payload into packets of `size` bytes. Must be the last message, so that it can
    /// be left off again.
    pub(super) fn segment(&mut self, size: u16) {
        self.push((libc::SOL_UDP, libc::UDP_SEGMENT), &size.to_ne_bytes());
    }

    /// Sends from `address` instead of the socket's own.
    pub(super) fn source(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(v4) => {
                // in_pktinfo: interface (0: by route), local address, header address.
                let mut info = [0; 12];
                info[4..8].copy_from_slice(&v4.octets());
                self.push((libc::IPPROTO_IP, libc::IP_PKTINFO), &info);
            }
            IpAddr::V6(v6) => {
                // in6_pktinfo: address, interface (0: by route).
                let mut info = [0; 20];
                info[..16].copy_from_slice(&v6.octets());
                self.push((libc::IPPROTO_IPV6, libc::IPV6_PKTINFO), &info);
            }
        }
    }

    fn push(&mut self, (level, kind): (c_int, c_int), data: &[u8]) {
        let message = &mut self.bytes[self.len..][..space(data.len())];
        message.fill(0);
        let word = size_of::<usize>();
        message[..word].copy_from_slice(&(HEAD + data.len()).to_ne_bytes());
        message[word..word + 4].copy_from_slice(&level.to_ne_bytes());
        message[word + 4..word + 8].copy_from_slice(&kind.to_ne_bytes());
        message[HEAD..HEAD + data.len()].copy_from_slice(data);
        self.len += message.len();
    }

    /// Reads the first `len` bytes, which the kernel has filled.
    pub(super) fn read(&self, len: usize) -> Received {
        let mut received = Received::default();
        let mut rest = &self.bytes[..len.min(ROOM)];
        while let Some((level, kind, data, after)) = next(rest) {
            match (level, kind) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let size = u32_at(data, 0).and_then(|size| usize::try_from(size).ok());
                    received.segment = size.filter(|&size| size > 0);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => received.overflow = u32_at(data, 0),
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let ip = data.get(4..8).and_then(|octets| octets.first_chunk::<4>());
                    received.local = ip.map(|ip| Ipv4Addr::from(*ip).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let ip = data.first_chunk::<16>();
                    received.local = ip.map(|ip| Ipv6Addr::from(*ip).into());
                }
                _ => {}
            }
            rest = after;
        }
        received
    }
}

type Message<'a> = (c_int, c_int, &'a [u8], &'a [u8]);

/// The first message and what follows it.
fn next(bytes: &[u8]) -> Option<Message<'_>> {
    let (len, fields) = bytes.split_first_chunk::<{ size_of::<usize>() }>()?;
    let len = usize::from_ne_bytes(*len);
    let level = u32_at(fields, 0)? as c_int;
    let kind = u32_at(fields, 4)? as c_int;
    let data = bytes.get(HEAD..len)?;
    let after = bytes.get(align(len)..).unwrap_or_default();
    Some((level, kind, data, after))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*bytes))
}

/// `CMSG_SPACE`.
const fn space(data: usize) -> usize {
    HEAD + align(data)
}

/// `CMSG_ALIGN`.
const fn align(len: usize) -> usize {
    len.next_multiple_of(size_of::<usize>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_agree_with_the_c_macros() {
        for data in [2, 4, 12, 20] {
            // SAFETY: pure arithmetic.
            assert_eq!(space(data), unsafe { libc::CMSG_SPACE(data as u32) }
                as usize);
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        for source in ["127.0.0.5", "::1"] {
            let source: IpAddr = source.parse().unwrap();
            let mut control = Control::new();
            control.source(source);
            control.segment(1_200);
            assert_eq!(control.read(control.len()).local, Some(source));
        }
    }

    #[test]
    fn truncated_messages_end_the_reading() {
        let mut control = Control::new();
        control.source(Ipv4Addr::LOCALHOST.into());
        for len in 0..control.len() - 4 {
            assert_eq!(control.read(len).local, None);
        }
    }
}
