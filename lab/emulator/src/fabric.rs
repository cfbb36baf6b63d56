//! All sites' paths and what is on its way: a packet in, packets out, on given time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use sangam_model::Time;

use crate::address;
use crate::packet::{self, Refusal};
use crate::path::{Cause, Fate, Path};
use crate::quality::Quality;

/// Packets on their way at a time, of all paths: 10 s of 100,000 packets/s, 1.5 GB at worst.
pub const IN_FLIGHT_MAX: usize = 1_000_000;

/// A full mesh of paths between sites.
#[derive(Debug)]
pub struct Fabric {
    sites: usize,
    paths: Vec<Path>,
    /// Arrival, then order of acceptance, then slot.
    due: BinaryHeap<Reverse<(Time, u64, u32)>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    accepted: u64,
    /// What no path counts.
    pub strays: Strays,
}

/// Packets that belong to no path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strays {
    /// Not to another site: multicast, and what hosts tell routers.
    pub nowhere: u64,
    /// Dropped at [`IN_FLIGHT_MAX`].
    pub overfull: u64,
    /// Not taken by the device of the site where they arrived.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Slot {
    to: usize,
    /// `None` for a router's answer, which is on no path.
    path: Option<usize>,
    bytes: Vec<u8>,
}

impl Fabric {
    /// Sites joined by perfect paths.
    #[must_use]
    pub fn new(sites: usize, seed: u64) -> Self {
        let numbers = 0..(sites * sites) as u64;
        Self {
            sites,
            paths: numbers
                .map(|n| Path::new(Quality::default(), seed, n))
                .collect(),
            due: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            accepted: 0,
            strays: Strays::default(),
        }
    }

    /// The path from one site to another; `None` if there is no such site, or only one.
    #[must_use]
    pub fn path(&self, from: usize, to: usize) -> Option<&Path> {
        self.paths.get(self.number(from, to)?)
    }

    /// The same, to change it.
    pub fn path_mut(&mut self, from: usize, to: usize) -> Option<&mut Path> {
        let number = self.number(from, to)?;
        self.paths.get_mut(number)
    }

    /// Takes an IP packet that left a site.
    pub fn handle(&mut self, now: Time, from: usize, packet: &[u8]) {
        let to = packet::ends(packet).and_then(|(_, to)| address::site(to));
        let found = to.and_then(|to| Some((to, self.number(from, to)?)));
        let Some((to, number)) = found else {
            self.strays.nowhere += 1;
            return;
        };
        let path = &mut self.paths[number];
        match path.handle(now, packet.len()) {
            Fate::Arrives { at, twice } => {
                self.accept(at, (to, Some(number)), packet);
                if twice {
                    self.accept(at, (to, Some(number)), packet);
                }
            }
            Fate::Lost(Cause::TooBig) if !path.quality().silent => {
                let mtu = path.quality().mtu;
                self.refuse(now, (from, packet), Refusal::TooBig(mtu));
            }
            Fate::Lost(Cause::Cut) => self.refuse(now, (from, packet), Refusal::Unreachable),
            Fate::Lost(_) => {}
        }
    }

    /// The next packet that has arrived, and its site, until `None`.
    pub fn poll(&mut self, now: Time) -> Option<(usize, &[u8])> {
        let slot = loop {
            let Reverse((at, _, slot)) = self.due.peek().copied()?;
            if at > now {
                return None;
            }
            self.due.pop();
            // Its bytes are read before anything is accepted into the slot again.
            self.free.push(slot);
            let Slot { path, bytes, .. } = &self.slots[slot as usize];
            if path.is_none_or(|path| self.paths[path].arrive(bytes.len())) {
                break slot as usize;
            }
        };
        Some((self.slots[slot].to, &self.slots[slot].bytes))
    }

    /// When the next packet arrives.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.due.peek().map(|Reverse((at, _, _))| *at)
    }

    fn number(&self, from: usize, to: usize) -> Option<usize> {
        let known = from < self.sites && to < self.sites && from != to;
        known.then_some(from * self.sites + to)
    }

    /// Answers at once: the router that refuses stands beside the sender.
    fn refuse(&mut self, now: Time, (from, packet): (usize, &[u8]), refusal: Refusal) {
        if let Some(answer) = packet::refuse(packet, refusal) {
            self.accept(now, (from, None), &answer);
        }
    }

    fn accept(&mut self, at: Time, (to, path): (usize, Option<usize>), packet: &[u8]) {
        if self.due.len() >= IN_FLIGHT_MAX {
            self.strays.overfull += 1;
            return;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let room = &mut self.slots[slot as usize];
        (room.to, room.path) = (to, path);
        room.bytes.clear();
        room.bytes.extend_from_slice(packet);
        self.due.push(Reverse((at, self.accepted, slot)));
        self.accepted += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::quality::State;

    const MS: Duration = Duration::from_millis(1);

    fn packet(from: usize, to: usize, number: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0];
        packet.extend(address::v4(from, 0).octets());
        packet.extend(address::v4(to, 0).octets());
        packet.resize(100, number);
        packet
    }

    fn arrivals(fabric: &mut Fabric, now: Time) -> Vec<(usize, u8)> {
        let mut all = Vec::new();
        while let Some((site, bytes)) = fabric.poll(now) {
            all.push((site, bytes[99]));
        }
        all
    }

    #[test]
    fn packets_arrive_at_their_site_in_time_and_in_order() {
        let mut fabric = Fabric::new(3, 1);
        let start = Time::from_millis(1);
        for (to, ms) in [(1, 20), (2, 5)] {
            let path = fabric.path_mut(0, to).unwrap();
            path.set(start, Quality::delayed(MS * ms));
        }
        for (to, number) in [(1, 1), (2, 2), (1, 3)] {
            fabric.handle(start, 0, &packet(0, to, number));
        }
        assert_eq!(fabric.deadline(), Some(start + MS * 5));
        assert_eq!(arrivals(&mut fabric, start), []);
        assert_eq!(arrivals(&mut fabric, start + MS * 5), [(2, 2)]);
        assert_eq!(arrivals(&mut fabric, start + MS * 20), [(1, 1), (1, 3)]);
        assert_eq!(fabric.deadline(), None);
    }

    #[test]
    fn a_cut_swallows_what_is_on_its_way_and_tells_senders() {
        let mut fabric = Fabric::new(2, 1);
        let start = Time::from_millis(1);
        let quality = Quality::delayed(MS * 10);
        let cut = Quality {
            state: State::Cut,
            ..quality.clone()
        };
        fabric.path_mut(0, 1).unwrap().set(start, quality);
        fabric.handle(start, 0, &packet(0, 1, 1));
        fabric.path_mut(0, 1).unwrap().set(start, cut);
        fabric.handle(start, 0, &packet(0, 1, 2));
        let (site, answer) = fabric.poll(start).unwrap();
        assert_eq!((site, answer[20]), (0, 3));
        assert_eq!(arrivals(&mut fabric, start + MS * 10), []);
        assert_eq!(fabric.path(0, 1).unwrap().counters.cut, 2);
    }

    #[test]
    fn what_goes_nowhere_is_counted() {
        let mut fabric = Fabric::new(2, 1);
        for bytes in [&packet(0, 5, 0)[..], &packet(0, 0, 0), &[], &[0x60, 1]] {
            fabric.handle(Time::ZERO, 0, bytes);
        }
        assert_eq!(fabric.strays.nowhere, 4);
    }
}
