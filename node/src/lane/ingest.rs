//! From a datagram to its hops: checks, the duplicate window, one copy into a pooled buffer.

use std::net::SocketAddr;
use std::time::Duration;

use sangam_broker::{DropReason, LinkId, Parent, Route, Shedder, Verdict};
use sangam_model::limits::{EVENT_LEN_MAX, HOP_LIMIT};
use sangam_model::{Class, StreamId};
use sangam_wire::feedback::Feedback;
use sangam_wire::{Event, Flags, Header, WireError, is_event};

use super::Lane;
use super::handover::Cuts;
use crate::bucket::Bucket;
use crate::shard::is_kept;

/// Events of neighbours that may wait for the announcement of their stream, and how long: it
/// travels before them but takes the way through control.
const EARLY: usize = 512;
pub(super) const EARLY_FOR: Duration = Duration::from_millis(200);

/// Where an event entered the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// A datagram from a client.
    Client(SocketAddr),
    /// A neighbour.
    Link(LinkId),
    /// A port of a shard, which has checked the owner already.
    Shard,
}

/// What the lane remembers of a stream.
#[derive(Debug, Default)]
pub(super) struct StreamState {
    stream: StreamId,
    media: sangam_broker::DuplicateWindow,
    rtcp: sangam_broker::DuplicateWindow,
    /// Has seen every event without pressure: how the stream marks frames and key frames.
    pub(super) habits: Shedder,
    /// Full rings cut frames.
    pub(super) cuts: Cuts,
    pub(super) bucket: Bucket,
    /// Its last event went nowhere, as it did not hold the floor.
    muted: bool,
}

impl Lane {
    /// Takes one datagram from the public port.
    pub(super) fn datagram(&mut self, bytes: &[u8], from: SocketAddr) {
        match bytes.first().copied().and_then(is_event) {
            Some(true) => {
                let source = self
                    .links
                    .by_address(from)
                    .map_or(Source::Client(from), Source::Link);
                self.event(bytes, source);
            }
            Some(false) => self.frame(bytes, from),
            None => self.counters.dropped(DropReason::Version),
        }
    }

    /// Takes one event; what comes of it waits in the outboxes until [`Lane::flush`].
    pub(super) fn event(&mut self, bytes: &[u8], source: Source) {
        let header = match Header::decode(bytes) {
            Ok(header) => header,
            Err(error) => return self.malformed(error),
        };
        let mut source = source;
        if let Source::Link(way) = source {
            let Some(link) = self.links.received(way, self.now, bytes.len()) else {
                return self.counters.dropped(DropReason::LinkDown);
            };
            if header.flags.contains(Flags::FRAGMENT) {
                return self.fragment(way, bytes);
            }
            source = Source::Link(link);
        } else if header.flags.contains(Flags::FRAGMENT) {
            return self.fragment_of_client(&header, bytes, source);
        }
        self.take_event(&header, bytes, source);
    }

    /// Takes a whole event of a neighbour that its link has counted.
    pub(super) fn event_of(&mut self, bytes: &[u8], link: LinkId) {
        if !self.links.get(link).is_some_and(|link| link.up) {
            return self.counters.dropped(DropReason::LinkDown);
        }
        match Header::decode(bytes) {
            Ok(header) => self.take_event(&header, bytes, Source::Link(link)),
            Err(error) => self.malformed(error),
        }
    }

    /// The same of anybody.
    pub(super) fn take_event(&mut self, header: &Header, bytes: &[u8], source: Source) {
        if bytes.len() > EVENT_LEN_MAX {
            return self.counters.dropped(DropReason::Oversized);
        }
        if header.flags.contains(Flags::EXTENDED)
            && let Err(error) = Event::decode(bytes)
        {
            return self.malformed(error);
        }
        if header.class == Class::Feedback {
            return self.feedback(bytes, source);
        }
        self.admit(header, bytes, source);
    }

    fn admit(&mut self, header: &Header, bytes: &[u8], source: Source) {
        let snapshot = self.snapshot.clone();
        let route = snapshot.route(header.stream);
        let Some(route) = route.filter(|route| is_known(route, source)) else {
            return self.early(bytes, source);
        };
        let allowed = may_send(route, source).and_then(|()| self.pay(header, route).map(drop));
        if let Err(reason) = allowed {
            return self.counters.dropped(reason);
        }
        // Before the window, which would take the event for a duplicate if it came once more.
        let Some(mut packet) = self.pool.take(bytes.len()) else {
            return self.counters.dropped(DropReason::PoolExhausted);
        };
        let (habits, opened) = match self.note(header, route) {
            Ok(noted) => noted,
            Err(reason) => return self.counters.dropped(reason),
        };
        packet.copy_from_slice(bytes);
        if opened && header.class == Class::Video && !header.flags.contains(Flags::KEY) {
            // It goes on in its middle: nobody can show it before its next key frame.
            let asks = Header {
                hop_limit: HOP_LIMIT,
                ..*header
            };
            self.gate.handle(self.now, &asks, &Feedback::KeyFrame);
            self.pass_feedback();
        }
        // At its last hop an event still serves the clients here.
        let spent = header.hop_limit <= 1;
        Event::lower_hop_limit(&mut packet);
        self.counters.received[header.class as usize].add(1);
        self.stamp.mark(self.now, &mut packet);
        if route.hops.is_empty() && route.shards == 0 {
            return self.counters.unwanted.add(1);
        }
        if header.flags.contains(Flags::KEY) {
            self.gate.key_frame_seen(header.stream, header.layer);
        }
        let packet = packet.freeze();
        for hop in route
            .hops
            .iter()
            .filter(|hop| source != Source::Link(**hop))
        {
            if spent {
                self.counters.dropped(DropReason::HopLimit);
            } else {
                self.outboxes.push(*hop, packet.clone(), habits);
            }
        }
        if is_kept(header.class, packet.len()) {
            self.cache
                .insert(header.stream, header.sequence, packet.clone());
        }
        if route.shards != 0 {
            self.local.push((packet, route.shards, header.class));
        }
    }

    /// Keeps an event of a neighbour whose announcement control has not taken yet.
    fn early(&mut self, bytes: &[u8], source: Source) {
        let kept = match source {
            Source::Link(link) if self.early.len() < EARLY => self.keep(bytes, link),
            _ => Err(DropReason::UnknownStream),
        };
        if let Err(reason) = kept {
            self.counters.dropped(reason);
        }
    }

    fn keep(&mut self, bytes: &[u8], link: LinkId) -> Result<(), DropReason> {
        let packet = self.pool.copy(bytes).ok_or(DropReason::PoolExhausted)?;
        self.early.push((packet.freeze(), link, self.now));
        Ok(())
    }

    /// Tries again what came before its announcement. What is too old by then is dropped.
    pub(super) fn retry_early(&mut self) {
        let mut early = std::mem::take(&mut self.early);
        early.retain(|(packet, link, since)| {
            if self.now - *since > EARLY_FOR {
                self.counters.dropped(DropReason::UnknownStream);
                return false;
            }
            // Whatever else changes, it does not become younger.
            let waits = packet.header().is_ok_and(|header| {
                let route = self.snapshot.route(header.stream);
                !route.is_some_and(|route| is_known(route, Source::Link(*link)))
            });
            if !waits {
                self.event_of(packet, *link);
            }
            waits
        });
        self.early = early;
    }

    /// Whether the event is new; then the habits of the stream, and whether it is the first after
    /// a floor was closed to it.
    fn note(&mut self, header: &Header, route: &Route) -> Result<(Shedder, bool), DropReason> {
        let now = self.now;
        let state = self.stream_state(route.index, header.stream);
        let window = if header.class == Class::Rtcp {
            &mut state.rtcp
        } else {
            &mut state.media
        };
        match window.insert(now, header.sequence) {
            Verdict::New => {
                state.habits.admit(header, Duration::ZERO, false);
                let opened = header.class != Class::Rtcp && std::mem::take(&mut state.muted);
                Ok((state.habits, opened))
            }
            Verdict::Duplicate => Err(DropReason::Duplicate),
            Verdict::Old => Err(DropReason::TooOld),
        }
    }

    /// Takes one more packet from what the publisher of a stream may say, if it is ours.
    pub(super) fn pay(
        &mut self,
        header: &Header,
        route: &Route,
    ) -> Result<&mut StreamState, DropReason> {
        let (now, limit) = (self.now, self.publisher_packets_per_s);
        let state = self.stream_state(route.index, header.stream);
        if route.closed {
            state.muted = true;
            return Err(DropReason::GateClosed);
        }
        if matches!(route.parent, Parent::Local { .. }) && !state.bucket.admits(now, limit) {
            return Err(DropReason::FloodPublisher);
        }
        Ok(state)
    }

    pub(super) fn stream_state(&mut self, index: u32, stream: StreamId) -> &mut StreamState {
        let index = index as usize;
        if index >= self.states.len() {
            self.states.resize_with(index + 1, StreamState::default);
        }
        let state = &mut self.states[index];
        if state.stream != stream {
            // The index belonged to a stream that has ended.
            *state = StreamState {
                stream,
                ..StreamState::default()
            };
        }
        state
    }

    pub(super) fn malformed(&mut self, error: WireError) {
        self.counters.dropped(error.into());
    }
}

/// Whether a stream that is known may come from there: a new way may bring it before its
/// announcement is taken.
fn is_known(route: &Route, source: Source) -> bool {
    match (route.parent, source) {
        (Parent::Link(_), Source::Link(link)) => route.announcers.contains(link),
        _ => true,
    }
}

/// Whether events of this stream may come from there.
pub(super) fn may_send(route: &Route, source: Source) -> Result<(), DropReason> {
    match (route.parent, source) {
        (
            Parent::Local {
                source: Some(from), ..
            },
            Source::Client(address),
        ) if from == address => Ok(()),
        (Parent::Local { .. }, Source::Shard) | (Parent::Link(_), Source::Link(_)) => Ok(()),
        // One of ours that comes back by a loop.
        (Parent::Local { .. }, Source::Link(_)) => Err(DropReason::CameHome),
        _ => Err(DropReason::NotOwner),
    }
}

#[cfg(test)]
#[path = "ingest_tests.rs"]
mod tests;
