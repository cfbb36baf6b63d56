//! Datagrams of many connections on their way out, one system call for as many as there are.

use core::mem;
use std::net::SocketAddr;

use crate::udp::{Address, SendBatch, SendReport, UdpSocket};

/// Datagrams of one turn: as many messages as one sendmmsg takes.
const SLOTS: usize = 64;

/// Datagrams that wait for the kernel.
pub(super) struct Sender {
    batch: SendBatch,
    slots: Vec<(Address, Vec<u8>)>,
    used: usize,
    report: SendReport,
}

impl Sender {
    pub(super) fn new() -> Self {
        let nowhere = Address::from(SocketAddr::from(([0; 4], 0)));
        Self {
            batch: SendBatch::new(),
            slots: (0..SLOTS).map(|_| (nowhere, Vec::new())).collect(),
            used: 0,
            report: SendReport::default(),
        }
    }

    /// Room for one datagram, empty; `None` while the kernel takes no more.
    pub(super) fn room(&mut self, socket: &UdpSocket) -> Option<&mut Vec<u8>> {
        if self.used == SLOTS && !self.flush(socket) {
            return None;
        }
        let (_, bytes) = self.slots.get_mut(self.used)?;
        bytes.clear();
        Some(bytes)
    }

    /// What was written into the room goes there.
    pub(super) fn commit(&mut self, to: SocketAddr) {
        if let Some((address, _)) = self.slots.get_mut(self.used) {
            *address = Address::from(to);
            self.used += 1;
        }
    }

    /// Sends; `false` if something is left that the kernel does not take.
    pub(super) fn flush(&mut self, socket: &UdpSocket) -> bool {
        if self.used == 0 {
            return true;
        }
        let before = self.report.would_block;
        let packets = self.slots[..self.used]
            .iter()
            .map(|(to, bytes)| (*to, &bytes[..]));
        self.batch.send(socket, packets, &mut self.report);
        let left = usize::try_from(self.report.would_block - before).unwrap_or(SLOTS);
        let left = left.min(self.used);
        self.slots[..self.used].rotate_right(left);
        self.used = left;
        left == 0
    }

    /// What became of the datagrams since it was last asked.
    pub(super) fn report(&mut self) -> SendReport {
        mem::take(&mut self.report)
    }
}
