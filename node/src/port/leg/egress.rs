//! Events become RTP and RTCP of an endpoint.

use std::net::SocketAddr;

use sangam_io::pool::Packet;
use sangam_io::port::{Delivery, PeerKey};
use sangam_io::udp::{Address, SendReport};
use sangam_model::limits::BURST_MAX;
use sangam_model::{Class, StreamId};
use sangam_wire::feedback::Feedback;
use sangam_wire::{Event, rtcp, rtp};

use super::{Leg, LegPort};

/// SSRCs remembered for each leg; beyond, the oldest is forgotten.
const SENDING: usize = 64;

impl LegPort {
    /// Sends a burst to one endpoint.
    pub(super) fn send(&mut self, peer: PeerKey, burst: &[Packet], done: &mut Delivery) {
        let Some(leg) = self.legs.get_mut(peer) else {
            return;
        };
        let Some(to) = leg.spec.send.as_ref().map(|send| send.to) else {
            return;
        };
        let Some(Ok(header)) = burst.first().map(|packet| packet.header()) else {
            return;
        };
        let mut payloads: [&[u8]; BURST_MAX] = [&[]; BURST_MAX];
        let mut count = 0;
        for packet in burst.iter().take(BURST_MAX) {
            // Checked at ingest: an event with broken extensions never comes so far.
            let Ok(payload) = Event::payload_of(packet) else {
                continue;
            };
            payloads[count] = payload;
            count += 1;
        }
        let payloads = &payloads[..count];
        if header.class != Class::Rtcp {
            payloads
                .iter()
                .for_each(|payload| leg.note(payload, header.stream));
        }
        let mut report = SendReport::default();
        let (socket, to) = leg.way(header.class, to);
        self.fanout
            .send(socket, payloads, &[Address::from(to)], &mut report);
        leg.sent += report.packets;
        done.packets += report.packets;
        done.messages += report.messages;
        done.bytes += report.bytes;
        done.errors += report.errors + report.would_block;
    }

    /// Tells the endpoint that publishes what its receivers say; false if it is unknown.
    pub(super) fn send_feedback(&mut self, peer: PeerKey, packet: &Packet) -> bool {
        let Some(leg) = self.legs.get(peer) else {
            return false;
        };
        let Some(source) = leg.source else {
            return false;
        };
        let feedback = Event::payload_of(packet).and_then(Feedback::decode);
        let Ok(feedback) = feedback else { return false };
        let target = rtcp::Target {
            sender: leg.own_ssrc(),
            media: source.ssrc,
        };
        let mut compound = Vec::new();
        match feedback {
            Feedback::Report(report) => {
                let clock_rate = leg
                    .spec
                    .receive
                    .as_ref()
                    .map_or(0, |receive| receive.media.clock_rate);
                let block = rtcp::Block {
                    ssrc: source.ssrc,
                    fraction_lost: report.fraction_lost,
                    highest: report.highest,
                    jitter: (u64::from(report.jitter_us) * u64::from(clock_rate) / 1_000_000)
                        as u32,
                    ..rtcp::Block::default()
                };
                rtcp::receiver_report(&mut compound, target.sender, &[block]);
            }
            // RFC 4585 section 3.1: feedback stands behind a report, which may be empty.
            Feedback::KeyFrame => {
                rtcp::receiver_report(&mut compound, target.sender, &[]);
                rtcp::picture_loss(&mut compound, target);
            }
            Feedback::Nack(nack) => {
                rtcp::receiver_report(&mut compound, target.sender, &[]);
                rtcp::nack(&mut compound, target, &[nack]);
            }
        }
        let (socket, to) = leg.way(Class::Rtcp, source.address);
        let mut report = SendReport::default();
        self.fanout
            .send(socket, &[&compound], &[Address::from(to)], &mut report);
        report.packets > 0
    }
}

impl Leg {
    /// Socket and address for a class towards an endpoint's RTP address.
    fn way(&self, class: Class, rtp: SocketAddr) -> (&sangam_io::udp::UdpSocket, SocketAddr) {
        if class != Class::Rtcp {
            return (&self.sockets.rtp, rtp);
        }
        (
            self.sockets.rtcp.as_ref().unwrap_or(&self.sockets.rtp),
            self.rtcp_address(rtp),
        )
    }

    /// Remembers whose SSRC this is.
    fn note(&mut self, payload: &[u8], stream: StreamId) {
        let Some(ssrc) = payload
            .get(8..rtp::HEADER_LEN)
            .and_then(|bytes| bytes.first_chunk())
        else {
            return;
        };
        let ssrc = u32::from_be_bytes(*ssrc);
        if self.sending.last() == Some(&(ssrc, stream)) {
            return;
        }
        self.sending.retain(|(known, _)| *known != ssrc);
        if self.sending.len() == SENDING {
            self.sending.remove(0);
        }
        self.sending.push((ssrc, stream));
    }

    /// Our own SSRC in reports: anything but the source's.
    fn own_ssrc(&self) -> u32 {
        let port = u32::from(self.sockets.rtp.local_addr().port());
        0x5a47_0000 | port
    }
}
