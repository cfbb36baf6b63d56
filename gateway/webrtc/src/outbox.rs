//! What peers want sent, gathered so that they share system calls.

use std::net::{IpAddr, SocketAddr};

use sangam_io::port::Delivery;
use sangam_io::udp::{Address, Outgoing, SendBatch, SendReport, UdpSocket};
use str0m::net::{DatagramSend, Protocol, Transmit};

use crate::places::Places;

/// Datagrams gathered before they are sent without being asked: four full system calls.
const FULL: usize = 256;

/// Datagrams and units on their way out.
pub(crate) struct Outbox {
    /// One list for each socket.
    datagrams: Vec<Vec<Datagram>>,
    /// Units for connections, by the other end's address.
    pub(crate) units: Vec<(SocketAddr, DatagramSend)>,
    sender: SendBatch,
    places: Places,
}

struct Datagram {
    to: Address,
    from: Option<IpAddr>,
    bytes: DatagramSend,
}

impl Outbox {
    pub(crate) fn new(places: Places) -> Self {
        Self {
            datagrams: places.sockets().map(|_| Vec::with_capacity(FULL)).collect(),
            units: Vec::new(),
            sender: SendBatch::new(),
            places,
        }
    }

    pub(crate) fn push(&mut self, transmit: Transmit) {
        let Transmit {
            proto,
            source,
            destination,
            contents: bytes,
        } = transmit;
        if proto != Protocol::Udp {
            return self.units.push((destination, bytes));
        }
        let socket = self.places.socket_for(destination);
        if let Some(list) = socket.and_then(|socket| self.datagrams.get_mut(socket)) {
            list.push(Datagram {
                to: Address::from(destination),
                from: self.places.source(source.ip()),
                bytes,
            });
        }
    }

    /// How much waits.
    pub(crate) fn len(&self) -> usize {
        self.units.len() + self.datagrams.iter().map(Vec::len).sum::<usize>()
    }

    /// Whether it is time to send, however little urgency there is.
    pub(crate) fn is_full(&self) -> bool {
        self.datagrams.iter().any(|list| list.len() >= FULL)
    }

    /// Hands everything to the kernel; `false` while it does not take it.
    pub(crate) fn flush(&mut self, sockets: &[UdpSocket], done: &mut Delivery) -> bool {
        let mut empty = true;
        for (socket, list) in sockets.iter().zip(&mut self.datagrams) {
            if list.is_empty() {
                continue;
            }
            let mut report = SendReport::default();
            let outgoing = list.iter().map(|datagram| Outgoing {
                to: datagram.to,
                from: datagram.from,
                bytes: &datagram.bytes,
            });
            self.sender.send(socket, outgoing, &mut report);
            done.packets += report.packets;
            done.messages += report.messages;
            done.bytes += report.bytes;
            done.errors += report.errors;
            let left = report.would_block as usize;
            list.drain(..list.len() - left.min(list.len()));
            empty &= list.is_empty();
        }
        empty
    }
}
