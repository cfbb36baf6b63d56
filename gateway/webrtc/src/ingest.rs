//! RTP of a publisher becomes events.

use sangam_io::clock;
use sangam_io::pool::{Packet, Pool};
use sangam_model::{Class, MediaInfo, StreamId, Time, Topic, limits};
use sangam_wire::rtp::{Encoding, FrameMarker, Sampler};
use sangam_wire::{AudioLevel, Event, ExtensionBlock, Extensions, Flags, HEADER_LEN, Header};
use sangam_wire::{red, rtcp, rtp};
use str0m::Rtc;
use str0m::media::{KeyframeRequestKind, Mid, Rid, SenderFeedback};
use str0m::rtp::{ExtensionValues, RtpPacket, Ssrc};

use crate::counts::Counts;
use crate::offer::Offer;
use crate::recovery::{Lost, Recovery};

/// Seconds from 1900 (NTP) to 1970 (Unix).
const NTP_EPOCH: u64 = 2_208_988_800;

/// What a peer publishes.
#[derive(Debug, Default)]
pub(crate) struct Ingest {
    inputs: Vec<Input>,
}

/// One encoded stream of a peer: a medium, or one simulcast layer of it.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) topic: Topic,
    pub(crate) media: MediaInfo,
    mid: Mid,
    rid: Option<Rid>,
    layer: u8,
    /// Given by the broker.
    stream: Option<StreamId>,
    /// Known from the first packet.
    ssrc: Option<Ssrc>,
    marker: FrameMarker,
    sampler: Sampler,
    rtcp_sequence: u16,
    /// If its sound comes with redundancy.
    recovery: Option<Box<Recovery>>,
}

/// What events are made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Means<'a> {
    pub(crate) pool: &'a Pool,
    pub(crate) now: Time,
    pub(crate) counts: &'a Counts,
}

impl Ingest {
    /// One stream for each medium of an offer below `topic`, and one for each layer below that;
    /// `None` if there are more than a client may publish, or a topic would be too long.
    pub(crate) fn of(offer: &Offer, topic: &Topic) -> Option<Self> {
        let mut inputs: Vec<Input> = Vec::new();
        let sent = offer.media.iter().filter(|medium| !medium.rejected);
        for medium in sent {
            let Some(format) = medium.formats.first() else {
                continue;
            };
            let class = medium.class();
            let same = inputs
                .iter()
                .filter(|input| input.media.class == class && input.layer == 0);
            // A second camera or microphone has a number behind its name.
            let name = match same.count() {
                0 => class.name().to_owned(),
                others => format!("{}-{}", class.name(), others + 1),
            };
            let media = format.info(class);
            media.validate().ok()?;
            let mid: Mid = medium.mid.as_str().into();
            let layers = medium.layers.iter().map(Some);
            let plain = medium.layers.is_empty().then_some(None);
            for (layer, rid) in (0..).zip(plain.into_iter().chain(layers)) {
                let topic = match rid {
                    Some(_) => Topic::new(&format!("{topic}/{name}/{layer}")),
                    None => Topic::new(&format!("{topic}/{name}")),
                };
                inputs.push(Input {
                    topic: topic.ok()?,
                    marker: FrameMarker::new(Encoding::from_name(&media.encoding)),
                    sampler: Sampler::default(),
                    media: media.clone(),
                    mid,
                    rid: rid.map(|rid| rid.as_str().into()),
                    layer,
                    stream: None,
                    ssrc: None,
                    rtcp_sequence: 0,
                    recovery: format.redundant.map(|number| Recovery::new(number).into()),
                });
            }
        }
        (inputs.len() <= limits::STREAMS_PER_CLIENT).then_some(Self { inputs })
    }

    pub(crate) fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// The broker has given the stream at this place its id.
    pub(crate) fn published(&mut self, place: usize, stream: StreamId) {
        if let Some(input) = self.inputs.get_mut(place) {
            input.stream = Some(stream);
        }
    }

    /// The broker has ended a stream; whether it was one of these.
    pub(crate) fn retired(&mut self, stream: StreamId) -> bool {
        let mut known = self.inputs.iter_mut();
        let input = known.find(|input| input.stream == Some(stream));
        input.is_some_and(|input| input.stream.take().is_some())
    }

    /// Gives the event of a packet, and before it those of lost ones that came with it; none if it
    /// belongs nowhere, or there is no buffer.
    pub(crate) fn events(
        &mut self,
        packet: &RtpPacket,
        rtc: &mut Rtc,
        means: Means<'_>,
        give: impl FnMut(Packet),
    ) {
        match self.of_ssrc(packet.header.ssrc, rtc) {
            Some(input) => input.events(packet, means, give),
            None => means.counts.unmapped.one(),
        }
    }

    /// A sender report as an event, so that receivers can play sound and picture together.
    pub(crate) fn report(&mut self, report: &SenderFeedback, pool: &Pool) -> Option<Packet> {
        let mut inputs = self.inputs.iter_mut();
        let input = inputs.find(|input| input.mid == report.mid && input.rid == report.rid)?;
        input.report(report, pool)
    }

    /// Asks the endpoint for a key frame of this stream, if it is one of these.
    pub(crate) fn ask_key_frame(&self, stream: StreamId, rtc: &mut Rtc) {
        let of_stream = |input: &&Input| input.stream == Some(stream);
        if let Some(input) = self.inputs.iter().find(of_stream) {
            input.ask_key_frame(rtc);
        }
    }

    /// Asks the endpoint for key frames of all its videos.
    pub(crate) fn ask_key_frames(&self, rtc: &mut Rtc) {
        let videos = self.inputs.iter();
        let videos = videos.filter(|input| input.media.class == Class::Video);
        videos.for_each(|input| input.ask_key_frame(rtc));
    }

    fn of_ssrc(&mut self, ssrc: Ssrc, rtc: &mut Rtc) -> Option<&mut Input> {
        let known = self
            .inputs
            .iter()
            .position(|input| input.ssrc == Some(ssrc));
        let place = match known {
            Some(place) => place,
            None => {
                let mut api = rtc.direct_api();
                let stream = api.stream_rx(&ssrc)?;
                let (mid, rid) = (stream.mid(), stream.rid());
                let mut inputs = self.inputs.iter();
                let place = inputs.position(|input| input.mid == mid && input.rid == rid)?;
                let input = self.inputs.get_mut(place)?;
                input.ssrc = Some(ssrc);
                if let Some(recovery) = &mut input.recovery {
                    recovery.restart();
                }
                place
            }
        };
        self.inputs.get_mut(place)
    }
}

impl Input {
    fn ask_key_frame(&self, rtc: &mut Rtc) {
        let mut api = rtc.direct_api();
        if let Some(receiver) = api.stream_rx_by_mid(self.mid, self.rid) {
            receiver.request_keyframe(KeyframeRequestKind::Pli);
        }
    }

    fn events(&mut self, packet: &RtpPacket, means: Means<'_>, mut give: impl FnMut(Packet)) {
        let given = &packet.header;
        let mut rtp = rtp::Header {
            marker: given.marker,
            payload_type: *given.payload_type,
            sequence: given.sequence_number,
            timestamp: given.timestamp,
            ssrc: *given.ssrc,
        };
        let (mut payload, mut blocks) = (&*packet.payload, None);
        let own = self.media.payload_type;
        let redundant = self.recovery.as_ref().map(|known| known.payload_type);
        if redundant == Some(rtp.payload_type) {
            match red::Payload::decode(payload) {
                Ok(taken) if taken.payload_type == own => {
                    means.counts.red_received.one();
                    rtp.payload_type = own;
                    payload = taken.primary;
                    blocks = Some(taken.blocks());
                }
                // Padding, with which senders try the bandwidth. It goes on as it does without RED:
                // left out, it would be a loss to everybody who counts.
                _ if payload.is_empty() => rtp.payload_type = own,
                _ => return means.counts.red_malformed.one(),
            }
        }
        if rtp.payload_type != own {
            return;
        }
        // Padding is no sound: nothing is missing before it, and it is missing nowhere.
        if let Some(recovery) = self.recovery.as_mut().filter(|_| !payload.is_empty()) {
            if !recovery.came(rtp.sequence, rtp.timestamp) {
                return means.counts.red_late.one();
            }
            let place = (rtp.sequence, rtp.timestamp);
            let lost = blocks.map(|blocks| recovery.lost(place, own, blocks));
            for lost in lost.into_iter().flatten() {
                if let Some(event) = self.recovered(rtp, &lost, means) {
                    give(event);
                }
            }
        }
        if let Some(event) = self.event(rtp, payload, audio_level(&given.ext_vals), means) {
            give(event);
        }
    }

    /// The event of a lost packet that came with the one of `rtp`. What stood in its header
    /// beyond its number and its time is lost.
    fn recovered(&mut self, rtp: rtp::Header, lost: &Lost<'_>, means: Means<'_>) -> Option<Packet> {
        let rtp = rtp::Header {
            marker: false,
            sequence: lost.sequence,
            timestamp: lost.timestamp,
            ..rtp
        };
        let event = self.event(rtp, lost.payload, None, means)?;
        means.counts.red_recovered.one();
        Some(event)
    }

    fn event(
        &mut self,
        rtp: rtp::Header,
        payload: &[u8],
        level: Option<AudioLevel>,
        means: Means<'_>,
    ) -> Option<Packet> {
        let flags = match self.media.class {
            Class::Video => self.marker.flags(&rtp::Packet {
                header: rtp,
                csrc_count: 0,
                extension: None,
                payload_offset: rtp::HEADER_LEN,
                payload,
                padding_len: 0,
            }),
            _ => Flags::NONE,
        };
        // Until the broker has given the stream its id there is nothing to send it under.
        let header = self.header(self.media.class, rtp.sequence, flags)?;
        let mut block = ExtensionBlock::new();
        if let Some(level) = level {
            block.audio_level(level);
        }
        if self.sampler.is_due(self.media.class, flags) {
            block.trace(clock::clock_domain(), means.now.as_micros());
        }
        let extensions = block.extensions();
        let front = HEADER_LEN + extensions.bytes().len();
        let len = front + rtp::HEADER_LEN + payload.len();
        let mut out = means.pool.take(len)?;
        let event = Event {
            header,
            extensions,
            payload: &[],
        };
        event.write(&mut out).ok()?;
        rtp.write(payload, &mut out[front..]).ok()?;
        Some(out.freeze())
    }

    fn report(&mut self, report: &SenderFeedback, pool: &Pool) -> Option<Packet> {
        let info = &report.sender_info;
        let unix = info.ntp_time.duration_since(std::time::UNIX_EPOCH).ok()?;
        let fraction = (u64::from(unix.subsec_nanos()) << 32) / 1_000_000_000;
        let ntp = (unix.as_secs() + NTP_EPOCH) << 32 | fraction;
        let mut compound = Vec::new();
        let info = rtcp::SenderInfo {
            ssrc: *info.ssrc,
            ntp,
            timestamp: info.rtp_time.numer() as u32,
            packets: info.sender_packet_count,
            bytes: info.sender_octet_count,
        };
        rtcp::sender_report(&mut compound, &info, &[]);
        let header = self.header(Class::Rtcp, self.rtcp_sequence, Flags::NONE)?;
        self.rtcp_sequence = self.rtcp_sequence.wrapping_add(1);
        let event = Event {
            header,
            extensions: Extensions::NONE,
            payload: &compound,
        };
        let mut out = pool.take(event.encoded_len())?;
        event.write(&mut out).ok()?;
        Some(out.freeze())
    }

    fn header(&self, class: Class, sequence: u16, flags: Flags) -> Option<Header> {
        Some(Header {
            class,
            flags,
            stream: self.stream?,
            sequence,
            hop_limit: limits::HOP_LIMIT,
            layer: self.layer,
        })
    }
}

/// RFC 6464 counts decibels below the loudest, the library above it.
fn audio_level(values: &ExtensionValues) -> Option<AudioLevel> {
    let below = values.audio_level?.unsigned_abs();
    Some(AudioLevel {
        voice: values.voice_activity.unwrap_or(false),
        below,
    })
}
