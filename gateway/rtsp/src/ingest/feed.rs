//! One publication, and its packets on their way to the broker.

use std::net::IpAddr;

use sangam_client::{Client, ClientError, Numbering, Outgoing, Publisher};
use sangam_model::{Class, MediaInfo, StreamId, Time, Topic};
use sangam_wire::rtp::{Encoding, FrameMarker, Packet};
use sangam_wire::{Flags, Refusal, rtcp};

use super::reception::Reception;
use crate::counts::Counts;
use crate::session::Carrier;

/// Of receiver reports and requests for key frames.
const NAME: &str = "sangam";

/// What a publisher does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has set up tracks.
    Ready,
    /// The broker is asked until then.
    Opening(Time),
    /// What it sends is published.
    Recording,
    /// What it sends is thrown away.
    Paused,
}

/// A publication.
#[derive(Debug)]
pub(crate) struct Feed {
    /// Its name.
    pub(super) id: String,
    /// The connection that announced it, without which it ends.
    pub(crate) connection: u64,
    pub(super) peer: IpAddr,
    pub(super) local: IpAddr,
    pub(super) carrier: Carrier,
    pub(super) inlets: Vec<Inlet>,
    pub(super) state: State,
    /// When it was heard of.
    pub(crate) heard: Time,
    /// When its publisher was reported to.
    pub(super) reported: Time,
    /// Our own source in reports.
    pub(super) ssrc: u32,
}

/// One track of it.
#[derive(Debug)]
pub(super) struct Inlet {
    /// Its place in what was announced.
    pub(super) place: usize,
    /// Ports or channels, for RTP and RTCP.
    pub(super) pair: (u16, u16),
    pub(super) topic: Topic,
    pub(super) media: MediaInfo,
    publisher: Option<Publisher>,
    marker: FrameMarker,
    pub(super) reception: Reception,
}

impl Inlet {
    /// Nothing is published yet.
    pub(super) fn new(place: usize, pair: (u16, u16), (topic, media): (Topic, MediaInfo)) -> Self {
        Self {
            place,
            pair,
            topic,
            publisher: None,
            marker: FrameMarker::new(Encoding::from_name(&media.encoding)),
            reception: Reception::new(media.clock_rate),
            media,
        }
    }

    /// The stream that it is now.
    pub(super) fn stream(&self) -> Option<StreamId> {
        self.publisher.as_ref()?.stream()
    }

    /// Publishes a packet.
    fn packet(&mut self, bytes: &[u8], (now, counts): (Time, &Counts)) {
        let packet = match Packet::decode(bytes) {
            Ok(packet) if packet.header.payload_type == self.media.payload_type => packet,
            _ => return counts.ingest_malformed.one(),
        };
        self.reception.packet(&packet.header, now);
        let flags = match self.media.class {
            Class::Video => self.marker.flags(&packet),
            _ => Flags::NONE,
        };
        let event = Outgoing {
            flags,
            layer: 0,
            payload: bytes,
        };
        counts.ingest_packets.one();
        counts.ingest_bytes.add(bytes.len() as u64);
        if let Some(publisher) = &mut self.publisher
            && let Err(error) = publisher.send_burst(&[event])
        {
            tracing::debug!(%error, topic = %self.topic, "a packet is not published");
            counts.ingest_dropped.one();
        }
    }

    /// Passes the publisher's report on.
    fn rtcp(&mut self, compound: &[u8], (now, counts): (Time, &Counts)) {
        for packet in rtcp::packets(compound).map_while(Result::ok) {
            if let rtcp::Packet::SenderReport(info, _) = packet {
                self.reception.report(&info, now);
            }
        }
        counts.ingest_reports.one();
        if let Some(publisher) = &mut self.publisher
            && let Err(error) = publisher.send_rtcp(compound)
        {
            tracing::debug!(%error, topic = %self.topic, "a report is not passed on");
        }
    }
}

impl Feed {
    /// Asks the broker to take all tracks.
    pub(super) fn publish(&mut self, client: &Client, until: Time) -> Result<(), ClientError> {
        for inlet in &mut self.inlets {
            let publisher = client.begin_publish(&inlet.topic, inlet.media.clone());
            let publisher = publisher.inspect_err(|_| inlet.publisher = None)?;
            let publisher = inlet.publisher.insert(publisher);
            publisher.set_numbering(Numbering::Rtp);
        }
        self.state = State::Opening(until);
        Ok(())
    }

    /// Publishes nothing any more.
    pub(super) fn withdraw(&mut self) {
        for inlet in &mut self.inlets {
            inlet.publisher = None;
        }
        self.state = State::Ready;
    }

    /// Whether the broker takes all tracks.
    ///
    /// # Errors
    /// Why it does not take one.
    pub(super) fn is_taken(&self) -> Result<bool, Refusal> {
        let mut is_taken = true;
        for publisher in self
            .inlets
            .iter()
            .filter_map(|inlet| inlet.publisher.as_ref())
        {
            is_taken &= publisher.is_live()?;
        }
        Ok(is_taken)
    }

    /// Whether its packets come by datagrams.
    pub(super) fn is_by_datagrams(&self) -> bool {
        self.carrier == Carrier::Udp
    }

    /// Takes what came by a port or channel; false if it is none of this publisher's.
    pub(super) fn take(&mut self, from: u16, bytes: &[u8], to: (Time, &Counts)) -> bool {
        let is_recording = self.state == State::Recording;
        let mut inlets = self.inlets.iter_mut();
        let inlet = inlets.find(|inlet| inlet.pair.0 == from || inlet.pair.1 == from);
        let Some(inlet) = inlet else {
            return false;
        };
        self.heard = to.0;
        match rtcp::is_rtcp(bytes) {
            _ if !is_recording => to.1.ingest_early.one(),
            true => inlet.rtcp(bytes, to),
            false => inlet.packet(bytes, to),
        }
        true
    }

    /// A compound that tells the publisher of a track how it is received; nothing was, if `None`.
    pub(super) fn report(&mut self, place: usize, now: Time) -> Option<(u16, Vec<u8>)> {
        let inlet = self.inlets.get_mut(place)?;
        let block = inlet.reception.block(now)?;
        let mut compound = Vec::new();
        rtcp::receiver_report(&mut compound, self.ssrc, &[block]);
        rtcp::source_name(&mut compound, self.ssrc, NAME);
        Some((inlet.pair.1, compound))
    }

    /// The same that asks for a key frame of a stream (RFC 4585 section 6.3.1).
    pub(super) fn ask(&self, stream: StreamId) -> Option<(u16, Vec<u8>)> {
        let mut inlets = self.inlets.iter();
        let inlet = inlets.find(|inlet| inlet.stream() == Some(stream))?;
        let media = inlet.reception.ssrc()?;
        let target = rtcp::Target {
            sender: self.ssrc,
            media,
        };
        let mut compound = Vec::new();
        rtcp::receiver_report(&mut compound, self.ssrc, &[]);
        rtcp::source_name(&mut compound, self.ssrc, NAME);
        rtcp::picture_loss(&mut compound, target);
        Some((inlet.pair.1, compound))
    }
}
