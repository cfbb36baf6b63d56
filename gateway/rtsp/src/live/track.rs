//! One stream of a topic as players see it, and its packets.

use std::time::Duration;

use sangam_model::{Class, MediaInfo, StreamId, Time, Topic};
use sangam_wire::rtp::{Encoding, Header, Packet};
use sangam_wire::{Event, Flags};

use super::clock::Clock;
use crate::egress::Moment;
use crate::limits::KEY_FRAME_EVERY;

/// One stream as players see it, over the lives of its publishers.
#[derive(Debug)]
pub(crate) struct Track {
    /// In URLs.
    pub(crate) number: usize,
    pub(super) topic: Topic,
    pub(crate) media: MediaInfo,
    /// `None` while nobody publishes it.
    pub(crate) stream: Option<StreamId>,
    /// Since when nobody does, as long as that may be a moment only.
    pub(crate) gone: Option<Time>,
    /// When a packet came, or it began.
    pub(super) heard: Time,
    /// How many publishers it had.
    pub(crate) life: u32,
    /// When a key frame was asked for.
    asked: Option<Time>,
    /// One is wanted that was not asked for yet, as another was asked for a moment before.
    wanted: bool,
    /// Timestamp of the newest frame, and whether it was seen to be a key frame.
    frame: Option<(u32, bool)>,
    pub(super) clock: Clock,
    encoding: Encoding,
}

/// A packet on its way to the players of its track.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relayed<'a> {
    /// The number of the track.
    pub(crate) number: usize,
    pub(crate) life: u32,
    pub(crate) bytes: &'a [u8],
    /// When it came: a moment, the same since the epoch, and the wall clock's time.
    pub(crate) now: Time,
    pub(crate) at: Duration,
    pub(crate) ntp: u64,
    pub(crate) is_video: bool,
    /// With it a picture begins that needs no other.
    pub(crate) is_entry: bool,
    /// With it any picture begins.
    pub(crate) is_start: bool,
    /// Its encoding shows which pictures need no other.
    pub(crate) shows_keys: bool,
    /// A key frame is to be asked for.
    pub(crate) is_wanted: bool,
    pub(crate) moment: Option<Moment>,
}

/// A moment, the same since the epoch, and the wall clock's time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) time: Time,
    pub(crate) ntp: u64,
}

impl Now {
    /// Since the epoch.
    pub(crate) const fn at(self) -> Duration {
        Duration::from_micros(self.time.as_micros())
    }
}

impl Track {
    /// A stream that is published since `now`.
    pub(super) fn new(
        number: usize,
        stream: StreamId,
        (topic, media): (&Topic, &MediaInfo),
        now: Time,
    ) -> Self {
        Self {
            number,
            topic: topic.clone(),
            stream: Some(stream),
            gone: None,
            heard: now,
            life: 0,
            asked: None,
            wanted: false,
            frame: None,
            clock: Clock::new(media.clock_rate),
            encoding: Encoding::from_name(&media.encoding),
            media: media.clone(),
        }
    }

    /// Somebody publishes it again.
    pub(super) fn begin(&mut self, stream: StreamId, now: Time) {
        (self.stream, self.gone, self.heard) = (Some(stream), None, now);
        self.life = self.life.wrapping_add(1);
        (self.asked, self.wanted, self.frame) = (None, false, None);
        self.clock.forget();
    }

    /// Nobody publishes it any more, perhaps for a moment only.
    pub(super) const fn end(&mut self, gone: Option<Time>) {
        (self.stream, self.gone) = (None, gone);
    }

    /// Takes a packet; `None` if it is no RTP.
    pub(super) fn packet<'a>(&mut self, event: &Event<'a>, now: Now) -> Option<Relayed<'a>> {
        let header = Packet::decode(event.payload).ok()?.header;
        self.heard = now.time;
        self.clock.packet(&header, now.at());
        let is_entry = self.is_entry(&header, event.header.flags);
        // Here it is.
        self.wanted &= !is_entry;
        Some(Relayed {
            number: self.number,
            life: self.life,
            bytes: event.payload,
            now: now.time,
            at: now.at(),
            ntp: now.ntp,
            is_video: self.media.class == Class::Video,
            is_entry,
            is_start: event.header.flags.contains(Flags::FRAME_START),
            shows_keys: self.encoding != Encoding::Other,
            is_wanted: self.wanted && self.may_ask(now.time),
            moment: self.clock.moment(),
        })
    }

    /// Whether nobody publishes it, and nobody will.
    pub(crate) fn is_over(&self) -> bool {
        self.stream.is_none() && self.gone.is_none()
    }

    /// A moment of its clock.
    pub(crate) const fn moment(&self) -> Option<Moment> {
        self.clock.moment()
    }

    /// The stream whose publisher is to be asked for a key frame now. If it was asked a moment
    /// before, [`Relayed::is_wanted`] says when it is time, unless one comes by itself.
    pub(crate) fn ask(&mut self, now: Time) -> Option<StreamId> {
        let stream = self.stream.filter(|_| self.media.class == Class::Video)?;
        self.wanted = !self.may_ask(now);
        if self.wanted {
            return None;
        }
        self.asked = Some(now);
        Some(stream)
    }

    fn may_ask(&self, now: Time) -> bool {
        let is_long = |asked| now.since(asked) >= KEY_FRAME_EVERY;
        self.asked.is_none_or(is_long)
    }

    /// Whether a packet is the first of its frame that shows to be of a key frame: a parameter set
    /// may stand behind a delimiter that shows nothing.
    fn is_entry(&mut self, header: &Header, flags: Flags) -> bool {
        let is_key = flags.contains(Flags::KEY);
        match &mut self.frame {
            Some((timestamp, was_key)) if *timestamp == header.timestamp => {
                let is_first = is_key && !*was_key;
                *was_key |= is_key;
                is_first
            }
            frame => {
                *frame = Some((header.timestamp, is_key));
                is_key
            }
        }
    }
}

/// Whether a stream carries what players of RTSP play.
pub(crate) fn is_played(media: &MediaInfo) -> bool {
    matches!(media.class, Class::Audio | Class::Video) && media.clock_rate > 0
}

#[cfg(test)]
mod tests {
    use sangam_model::{BrokerId, Incarnation};
    use sangam_wire::Extensions;

    use super::*;

    fn id() -> StreamId {
        StreamId::new(BrokerId(1), Incarnation(0), 1)
    }

    fn track() -> Track {
        let topic = Topic::new("a").unwrap();
        let media = MediaInfo {
            class: Class::Video,
            payload_type: 96,
            channels: 0,
            clock_rate: 90_000,
            encoding: "H264".to_owned(),
            fmtp: String::new(),
        };
        Track::new(0, id(), (&topic, &media), Time::ZERO)
    }

    #[test]
    fn key_frames_are_asked_for_twice_a_second_at_most() {
        let mut track = track();
        let asked = [0, 100, 499, 500, 600, 1_000].map(|ms| track.ask(Time::from_millis(ms)));
        assert_eq!(
            asked.map(|one| one.is_some()),
            [true, false, false, true, false, true]
        );
    }

    #[test]
    fn a_key_frame_that_was_asked_for_too_early_is_asked_for_in_time_or_comes() {
        let start = Time::from_millis(1);
        let mut track = track();
        let is_wanted = |track: &mut Track, ms: u64, flags: Flags| {
            let header = Header {
                timestamp: ms as u32 * 90,
                ..Header::default()
            };
            let event = Event {
                header: sangam_wire::Header {
                    class: Class::Video,
                    flags,
                    stream: id(),
                    sequence: 0,
                    hop_limit: 1,
                    layer: 0,
                },
                extensions: Extensions::NONE,
                payload: &header.encode(),
            };
            let now = Now {
                time: start + Duration::from_millis(ms),
                ntp: 0,
            };
            track.packet(&event, now).unwrap().is_wanted
        };
        let ask = |track: &mut Track, ms: u64| {
            let now = start + Duration::from_millis(ms);
            track.ask(now).is_some()
        };
        assert!(ask(&mut track, 0));
        assert!(!is_wanted(&mut track, 10, Flags::KEY));
        assert!(!ask(&mut track, 20));
        assert!(!is_wanted(&mut track, 490, Flags::NONE));
        assert!(is_wanted(&mut track, 510, Flags::NONE));
        assert!(ask(&mut track, 510));
        assert!(!ask(&mut track, 520));
        assert!(!is_wanted(&mut track, 530, Flags::KEY));
        assert!(!is_wanted(&mut track, 1_100, Flags::NONE));
    }

    #[test]
    fn a_key_frame_is_entered_with_its_first_packet_only() {
        let mut track = track();
        let mut entries = |timestamp, flags: [Flags; 3]| {
            flags.map(|flags| {
                let header = Header {
                    marker: false,
                    payload_type: 96,
                    sequence: 0,
                    timestamp,
                    ssrc: 1,
                };
                track.is_entry(&header, flags)
            })
        };
        let (none, key) = (Flags::NONE, Flags::KEY);
        assert_eq!(entries(1, [key, key, key]), [true, false, false]);
        assert_eq!(entries(2, [none, none, none]), [false; 3]);
        assert_eq!(entries(3, [none, key, key]), [false, true, false]);
    }
}
