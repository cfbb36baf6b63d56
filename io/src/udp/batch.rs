//! Different packets to different destinations.

use core::ptr;
use std::net::IpAddr;

use libc::{iovec, mmsghdr};
use sangam_model::limits::BURST_MAX;

use super::control::Control;
use super::send::{CHUNK, Segmentation, SendReport, empty_header, fits, slice_of, transmit};
use super::{Address, UdpSocket};

/// Slices of one system call: a chunk of full bursts is rare, a chunk of four each is not.
const SLICES: usize = 4 * CHUNK;
const _: () = assert!(BURST_MAX <= SLICES);

/// One packet to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Where to.
    pub to: Address,
    /// The local address to send from; `None`: the socket's own, or as the route says.
    pub from: Option<IpAddr>,
    /// The payload.
    pub bytes: &'a [u8],
}

/// Reused scratch for sends of different packets.
pub struct SendBatch {
    /// Their pointers are valid only during a flush.
    headers: Box<[mmsghdr; CHUNK]>,
    drafts: Box<[Draft; CHUNK]>,
    slices: Box<[iovec; SLICES]>,
    used: Used,
    segmentation: Segmentation,
}

#[derive(Clone, Copy, Default)]
struct Used {
    drafts: usize,
    slices: usize,
}

/// A message while it is gathered.
#[derive(Clone, Copy)]
struct Draft {
    to: Address,
    from: Option<IpAddr>,
    control: Control,
    /// Its first slice, and how many there are.
    first: usize,
    count: usize,
    /// Bytes of each packet but the last, and of all.
    size: usize,
    bytes: usize,
    /// More packets may follow.
    open: bool,
}

// SAFETY: the pointers are written anew by every call before they are used.
unsafe impl Send for SendBatch {}

impl<'a> From<(Address, &'a [u8])> for Outgoing<'a> {
    fn from((to, bytes): (Address, &'a [u8])) -> Self {
        let from = None;
        Self { to, from, bytes }
    }
}

impl Default for SendBatch {
    fn default() -> Self {
        Self::new()
    }
}

impl SendBatch {
    /// Scratch for one thread.
    #[must_use]
    pub fn new() -> Self {
        let draft = Draft {
            to: Address::room(),
            from: None,
            control: Control::new(),
            first: 0,
            count: 0,
            size: 0,
            bytes: 0,
            open: false,
        };
        Self {
            headers: Box::new([empty_header(); CHUNK]),
            drafts: Box::new([draft; CHUNK]),
            slices: Box::new([slice_of(&[]); SLICES]),
            used: Used::default(),
            segmentation: Segmentation::default(),
        }
    }

    /// Sends all packets in order and adds to `report`. Packets in a row to one destination leave
    /// as one segmented message where their sizes allow it.
    ///
    /// A destination that fails is skipped. A full socket buffer ends the sending: what was not
    /// sent is in [`SendReport::would_block`], and these are the last packets.
    pub fn send<'a, T: Into<Outgoing<'a>>>(
        &mut self,
        socket: &UdpSocket,
        packets: impl IntoIterator<Item = T>,
        report: &mut SendReport,
    ) {
        self.used = Used::default();
        let mut packets = packets.into_iter();
        while let Some(packet) = packets.next() {
            let packet = packet.into();
            if self.join(&packet) {
                continue;
            }
            if (self.used.drafts == CHUNK || self.used.slices == SLICES)
                && !self.flush(socket, report)
            {
                report.would_block += 1 + packets.count() as u64;
                return;
            }
            self.start(&packet);
        }
        self.flush(socket, report);
    }

    /// Adds a packet to the last message if it may follow there.
    fn join(&mut self, packet: &Outgoing<'_>) -> bool {
        let Some(last) = self.used.drafts.checked_sub(1) else {
            return false;
        };
        let draft = &mut self.drafts[last];
        let len = packet.bytes.len();
        let joins = draft.open
            && self.used.slices < SLICES
            && draft.to == packet.to
            && draft.from == packet.from
            && fits(len, draft.size, (draft.count, draft.bytes));
        if joins {
            draft.count += 1;
            draft.bytes += len;
            draft.open = len == draft.size;
            self.slices[self.used.slices] = slice_of(packet.bytes);
            self.used.slices += 1;
        }
        joins
    }

    fn start(&mut self, packet: &Outgoing<'_>) {
        let draft = &mut self.drafts[self.used.drafts];
        draft.to = packet.to;
        draft.from = packet.from;
        draft.first = self.used.slices;
        draft.count = 1;
        draft.size = packet.bytes.len();
        draft.bytes = draft.size;
        draft.open = self.segmentation.allowed();
        self.slices[self.used.slices] = slice_of(packet.bytes);
        self.used.drafts += 1;
        self.used.slices += 1;
    }

    /// Sends what was gathered; `false` once the socket's buffer is full.
    fn flush(&mut self, socket: &UdpSocket, report: &mut SendReport) -> bool {
        let Used { drafts, slices } = core::mem::take(&mut self.used);
        let slices = self.slices[..slices].as_mut_ptr();
        for (header, draft) in self.headers.iter_mut().zip(&mut self.drafts[..drafts]) {
            draft.control.clear();
            if let Some(from) = draft.from {
                draft.control.source(from);
            }
            if draft.count > 1 {
                draft.control.segment(draft.size as u16);
            }
            let message = &mut header.msg_hdr;
            message.msg_name = draft.to.as_ptr().cast_mut().cast();
            message.msg_namelen = draft.to.len();
            message.msg_iov = slices.wrapping_add(draft.first);
            message.msg_iovlen = draft.count as _;
            message.msg_controllen = draft.control.len() as _;
            message.msg_control = match draft.control.len() {
                0 => ptr::null_mut(),
                _ => draft.control.as_mut_ptr().cast(),
            };
        }
        let headers = &mut self.headers[..drafts];
        // SAFETY: names, control messages and slices lie in `self`; the slices point to packets
        // that were gathered in this call of `send`, which borrows them throughout.
        unsafe { transmit(socket, headers, &mut self.segmentation, report) == drafts }
    }
}
