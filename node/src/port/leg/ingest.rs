//! RTP and RTCP of an endpoint become events.

use std::net::SocketAddr;
use std::time::Duration;

use sangam_broker::{DropReason, FeedbackOutput};
use sangam_io::clock;
use sangam_io::pool::{Packet, Pool};
use sangam_io::port::{Action, Context, PeerKey};
use sangam_model::{Class, StreamId, limits};
use sangam_wire::feedback::{Feedback, Report};
use sangam_wire::{Event, ExtensionBlock, Extensions, Flags, Header, rtcp, rtp};

use super::{Latched, Leg, LegPort};
use crate::feedback;

/// A source that is silent for so long may be replaced by another.
const SOURCE_SILENCE: Duration = Duration::from_secs(2);
/// Calls before others have their turn; the poller tells when there is more.
const BATCHES_PER_TURN: usize = 16;

impl LegPort {
    pub(super) fn receive(&mut self, peer: PeerKey, rtcp: bool, cx: &mut Context<'_>) {
        let Some(mut batch) = self.batch.take() else {
            return;
        };
        for _ in 0..BATCHES_PER_TURN {
            let Some(leg) = self.legs.get(peer) else {
                break;
            };
            let socket = if rtcp {
                leg.sockets.rtcp.as_ref()
            } else {
                Some(&leg.sockets.rtp)
            };
            let got = match socket.map_or(Ok(0), |socket| socket.recv(&mut batch)) {
                Ok(got) => got,
                Err(error) => {
                    tracing::debug!(%error, "receiving on a leg failed");
                    self.counters.dropped(DropReason::ReceiveError);
                    break;
                }
            };
            for datagram in batch.datagrams() {
                self.datagram(peer, datagram.bytes, datagram.source, cx);
            }
            if got < batch.capacity() {
                break;
            }
        }
        self.batch = Some(batch);
    }

    fn datagram(&mut self, peer: PeerKey, bytes: &[u8], from: SocketAddr, cx: &mut Context<'_>) {
        let Some(leg) = self.legs.get_mut(peer) else {
            return;
        };
        leg.received += 1;
        if rtcp::is_rtcp(bytes) {
            return self.rtcp(peer, bytes, cx);
        }
        match leg.rtp(bytes, from, cx) {
            Ok(packet) => cx.actions.push(Action::Ingest { peer, packet }),
            Err(reason) => self.counters.dropped(reason),
        }
    }

    fn rtcp(&mut self, peer: PeerKey, compound: &[u8], cx: &mut Context<'_>) {
        let Some(leg) = self.legs.get_mut(peer) else {
            return;
        };
        let mut describes_media = false;
        for packet in rtcp::packets(compound) {
            let Ok(packet) = packet else {
                return self.counters.dropped(DropReason::NotRtp);
            };
            describes_media |= matches!(
                packet,
                rtcp::Packet::SenderReport(..)
                    | rtcp::Packet::SourceName(..)
                    | rtcp::Packet::Bye(_)
            );
            leg.feedback_of(peer, packet, cx);
        }
        let Some(stream) = leg.stream.filter(|_| describes_media) else {
            return;
        };
        let header = Header {
            class: Class::Rtcp,
            flags: Flags::NONE,
            stream,
            sequence: leg.rtcp_sequence,
            hop_limit: limits::HOP_LIMIT,
            layer: 0,
        };
        leg.rtcp_sequence = leg.rtcp_sequence.wrapping_add(1);
        match event(&header, Extensions::NONE, compound, cx.pool) {
            Some(packet) => cx.actions.push(Action::Ingest { peer, packet }),
            None => self.counters.dropped(DropReason::PoolExhausted),
        }
    }
}

impl Leg {
    fn rtp(
        &mut self,
        bytes: &[u8],
        from: SocketAddr,
        cx: &Context<'_>,
    ) -> Result<Packet, DropReason> {
        let receive = self.spec.receive.as_ref().ok_or(DropReason::LegSource)?;
        let rtp = rtp::Packet::decode(bytes).map_err(|_| DropReason::NotRtp)?;
        if rtp.header.payload_type != receive.media.payload_type {
            return Err(DropReason::NotRtp);
        }
        let other = self
            .source
            .is_some_and(|s| s.address != from && cx.now - s.heard < SOURCE_SILENCE);
        if other {
            return Err(DropReason::LegSource);
        }
        // Not before: a stranger's packet begins and ends no frame.
        let class = receive.media.class;
        let flags = if class == Class::Video {
            self.marker.flags(&rtp)
        } else {
            Flags::NONE
        };
        self.source = Some(Latched {
            address: from,
            ssrc: rtp.header.ssrc,
            heard: cx.now,
        });
        // Until the broker has given the stream its id there is nothing to send it under.
        let stream = self.stream.ok_or(DropReason::UnknownStream)?;
        let sequence = rtp.header.sequence;
        let header = Header {
            class,
            flags,
            stream,
            sequence,
            hop_limit: limits::HOP_LIMIT,
            layer: 0,
        };
        let mut block = ExtensionBlock::new();
        if self.sampler.is_due(class, flags) {
            block.trace(clock::clock_domain(), cx.now.as_micros());
        }
        event(&header, block.extensions(), bytes, cx.pool).ok_or(DropReason::PoolExhausted)
    }

    /// What the endpoint says about the streams we send to it.
    fn feedback_of(&self, peer: PeerKey, packet: rtcp::Packet<'_>, cx: &mut Context<'_>) {
        let mut say = |ssrc: u32, what: Feedback| {
            let Some(stream) = self.stream_of(ssrc) else {
                return;
            };
            let what = FeedbackOutput {
                stream,
                layer: 0,
                feedback: what,
            };
            if let Some(packet) = feedback::event(&what, cx.pool) {
                cx.actions.push(Action::Feedback { peer, packet });
            }
        };
        match packet {
            rtcp::Packet::Nack(target, nacks) => {
                nacks
                    .iter()
                    .for_each(|nack| say(target.media, Feedback::Nack(nack)));
            }
            rtcp::Packet::PictureLoss(target) => say(target.media, Feedback::KeyFrame),
            rtcp::Packet::FullIntra(ssrc) => say(ssrc, Feedback::KeyFrame),
            rtcp::Packet::ReceiverReport(_, blocks) | rtcp::Packet::SenderReport(_, blocks) => {
                for block in blocks.iter() {
                    let report = Report {
                        fraction_lost: block.fraction_lost,
                        highest: block.highest,
                        jitter_us: self.microseconds(block),
                        capacity_kbps: 0,
                    };
                    say(block.ssrc, Feedback::Report(report));
                }
            }
            _ => {}
        }
    }

    /// The jitter that a block tells, which counts in the stream's clock; 0 if that is unknown.
    fn microseconds(&self, block: rtcp::Block) -> u32 {
        let rate = self
            .stream_of(block.ssrc)
            .and_then(|stream| self.rates.get(&stream));
        let jitter = u64::from(block.jitter) * 1_000_000;
        let jitter_us = rate.and_then(|rate| jitter.checked_div((*rate).into()));
        jitter_us.map_or(0, |us| us.try_into().unwrap_or(u32::MAX))
    }

    fn stream_of(&self, ssrc: u32) -> Option<StreamId> {
        self.sending
            .iter()
            .find(|(known, _)| *known == ssrc)
            .map(|(_, stream)| *stream)
    }
}

fn event(
    header: &Header,
    extensions: Extensions<'_>,
    payload: &[u8],
    pool: &Pool,
) -> Option<Packet> {
    let event = Event {
        header: *header,
        extensions,
        payload,
    };
    let mut packet = pool.take(event.encoded_len())?;
    event.write(&mut packet).ok()?;
    Some(packet.freeze())
}
