//! One topic that somebody watches: what is published there, and who is.

use sangam_model::{Filter, MediaInfo, StreamId, Time, Topic};
use sangam_wire::{Event, Refusal, rtcp};

use super::clock::WallClocks;
use super::track::{Now, Relayed, Track, is_played};
use crate::limits::{ANNOUNCE_WAIT, SETTLE, SILENCE, TRACKS_MAX};

/// A topic and what is below it.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) topic: Topic,
    pub(crate) filter: Filter,
    /// Of more streams than [`TRACKS_MAX`] those that were announced first.
    pub(crate) tracks: Vec<Track>,
    /// The number of the next track.
    next: usize,
    clocks: WallClocks,
    /// Connections that wait until it is known what is published.
    pub(crate) askers: Vec<u64>,
    /// Sessions that play it.
    pub(crate) sessions: Vec<u64>,
    /// When those who wait are answered; `None`: it is known what is published.
    pub(crate) settles: Option<Time>,
    /// The broker has not taken the subscription.
    pub(crate) refused: Option<Refusal>,
    /// When somebody was there last.
    pub(crate) left: Time,
    /// How often what is published has changed.
    pub(crate) version: u64,
}

/// Two tracks that changed streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HandOver {
    /// The track that had the stream, and the one that has it now.
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) stream: StreamId,
    /// What it had before, if that is not gone.
    pub(crate) instead: Option<StreamId>,
}

impl Watch {
    /// Nothing is known yet.
    pub(crate) fn new(topic: Topic, now: Time) -> Self {
        let below = Filter::new(&format!("{topic}/#"));
        Self {
            // A topic may be too long, or too deep, to have others below it.
            filter: below.unwrap_or_else(|_| Filter::from(&topic)),
            topic,
            tracks: Vec::new(),
            next: 0,
            clocks: WallClocks::default(),
            askers: Vec::new(),
            sessions: Vec::new(),
            settles: Some(now + ANNOUNCE_WAIT),
            refused: None,
            left: now,
            version: 0,
        }
    }

    /// Takes note of a stream: the number of its track, and whether that was there before. `None`
    /// if there is no room, or it is not to be played.
    pub(crate) fn announced(
        &mut self,
        stream: StreamId,
        (topic, media): (&Topic, &MediaInfo),
        now: Time,
    ) -> Option<(usize, bool)> {
        if !is_played(media) || !self.filter.matches(topic) {
            return None;
        }
        if let Some(settles) = &mut self.settles {
            *settles = (*settles).min(now + SETTLE);
        }
        let mut tracks = self.tracks.iter();
        if let Some(track) = tracks.find(|track| track.stream == Some(stream)) {
            return Some((track.number, false));
        }
        let mut tracks = self.tracks.iter_mut();
        let heir = tracks
            .find(|track| track.stream.is_none() && track.topic == *topic && track.media == *media);
        if let Some(track) = heir {
            track.begin(stream, now);
            self.version += 1;
            return Some((track.number, true));
        }
        if self.tracks.len() == TRACKS_MAX {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.version += 1;
        let track = Track::new(number, stream, (topic, media), now);
        self.tracks.push(track);
        Some((number, false))
    }

    /// A stream of it is gone, perhaps to return.
    pub(crate) fn retired(&mut self, number: usize, now: Time) {
        if let Some(track) = self.track_mut(number) {
            track.end(Some(now));
            self.version += 1;
        }
    }

    /// Lets a track that is played, and gone or silent, change streams with another one of the same
    /// topic and media that is not played.
    pub(crate) fn hand_over(
        &mut self,
        now: Time,
        is_played: impl Fn(usize) -> bool,
    ) -> Option<HandOver> {
        let find = |old: &Track| {
            let is_silent = old.gone.is_some() || now.since(old.heard) >= SILENCE;
            let is_orphan = is_silent && is_played(old.number);
            let mut others = self.tracks.iter().filter(|_| is_orphan);
            let heir = others.find(|other| {
                let is_same = other.topic == old.topic && other.media == old.media;
                let is_there = old.gone.is_some() || now.since(other.heard) < SILENCE;
                is_same && is_there && other.stream.is_some() && !is_played(other.number)
            })?;
            Some(HandOver {
                from: heir.number,
                to: old.number,
                stream: heir.stream?,
                instead: old.stream,
            })
        };
        let done = self.tracks.iter().find_map(find)?;
        let to = self.track_mut(done.to)?;
        let (gone, heard) = (to.gone, to.heard);
        to.begin(done.stream, now);
        let from = self.track_mut(done.from)?;
        match done.instead {
            Some(stream) => from.begin(stream, heard),
            None => from.end(gone),
        }
        self.version += 1;
        Some(done)
    }

    /// A track by its number.
    pub(crate) fn track(&self, number: usize) -> Option<&Track> {
        self.tracks.iter().find(|track| track.number == number)
    }

    /// The same to be changed.
    pub(crate) fn track_mut(&mut self, number: usize) -> Option<&mut Track> {
        let mut tracks = self.tracks.iter_mut();
        tracks.find(|track| track.number == number)
    }

    /// What is published at present.
    pub(crate) fn published(&self) -> impl Iterator<Item = &Track> {
        self.tracks.iter().filter(|track| track.stream.is_some())
    }

    /// Takes a packet of a track; `None` if it is no RTP.
    pub(crate) fn packet<'a>(
        &mut self,
        number: usize,
        event: &Event<'a>,
        now: Now,
    ) -> Option<Relayed<'a>> {
        self.track_mut(number)?.packet(event, now)
    }

    /// Takes what the publisher of a track reports.
    pub(crate) fn report(&mut self, number: usize, compound: &[u8], now: Now) {
        for packet in rtcp::packets(compound).map_while(Result::ok) {
            let rtcp::Packet::SenderReport(info, _) = packet else {
                continue;
            };
            let made = self.clocks.made(info.ntp, now.at());
            if let (Some(track), Some(made)) = (self.track_mut(number), made) {
                track.clock.report(&info, made);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sangam_model::{BrokerId, Class, Incarnation};

    use super::*;

    fn media(encoding: &str) -> MediaInfo {
        MediaInfo {
            class: Class::Video,
            payload_type: 96,
            channels: 0,
            clock_rate: 90_000,
            encoding: encoding.to_owned(),
            fmtp: String::new(),
        }
    }

    fn id(local: u32) -> StreamId {
        StreamId::new(BrokerId(1), Incarnation(0), local)
    }

    fn topic(text: &str) -> Topic {
        Topic::new(text).unwrap()
    }

    #[test]
    fn a_stream_that_returns_with_the_same_media_has_its_track_again() {
        let now = Time::from_millis(1);
        let mut watch = Watch::new(topic("a/b"), now);
        let announce = |watch: &mut Watch, local, name: &str, encoding| {
            watch.announced(id(local), (&topic(name), &media(encoding)), now)
        };
        assert_eq!(announce(&mut watch, 1, "a/b", "H264"), Some((0, false)));
        assert_eq!(announce(&mut watch, 2, "a/b/c", "H264"), Some((1, false)));
        // Said twice, and said of something else.
        assert_eq!(announce(&mut watch, 2, "a/b/c", "H264"), Some((1, false)));
        assert_eq!(announce(&mut watch, 3, "a/c", "H264"), None);
        // Said twice, while another one of the kind is free.
        assert_eq!(announce(&mut watch, 3, "a/b", "H264"), Some((2, false)));
        watch.retired(0, now);
        assert_eq!(announce(&mut watch, 3, "a/b", "H264"), Some((2, false)));
        assert_eq!(announce(&mut watch, 1, "a/b", "H264"), Some((0, true)));
        watch.retired(1, now);
        assert_eq!(watch.published().count(), 2);
        assert_eq!(announce(&mut watch, 4, "a/b/c", "VP8"), Some((3, false)));
        assert_eq!(announce(&mut watch, 5, "a/b/c", "H264"), Some((1, true)));
        assert_eq!(watch.track(1).unwrap().life, 1);
        for local in 6..100 {
            announce(&mut watch, local, "a/b/d", "H264");
        }
        assert_eq!(watch.tracks.len(), TRACKS_MAX);
    }

    #[test]
    fn a_publisher_that_is_back_before_it_was_missed_takes_its_place() {
        let now = Time::from_millis(1);
        let mut watch = Watch::new(topic("a"), now);
        for local in [1, 2] {
            watch.announced(id(local), (&topic("a/video"), &media("H264")), now);
        }
        let is_played = |track: usize| track == 0;
        assert_eq!(watch.hand_over(now, is_played), None);
        watch.retired(0, now);
        assert_eq!(watch.hand_over(now, |_| true), None);
        let first = HandOver {
            from: 1,
            to: 0,
            stream: id(2),
            instead: None,
        };
        assert_eq!(watch.hand_over(now, is_played), Some(first));
        assert_eq!(watch.hand_over(now, is_played), None);
        let tracks: Vec<_> = watch.published().map(|track| track.number).collect();
        assert_eq!(tracks, [0]);
        // The broker has not missed it yet, but nothing comes.
        watch.announced(id(3), (&topic("a/video"), &media("H264")), now);
        let later = now + SILENCE;
        assert_eq!(watch.hand_over(later, is_played), None);
        watch.track_mut(1).unwrap().heard = later;
        let second = HandOver {
            stream: id(3),
            instead: Some(id(2)),
            ..first
        };
        assert_eq!(watch.hand_over(later, is_played), Some(second));
        assert_eq!(watch.hand_over(later, is_played), None);
    }

    #[test]
    fn a_topic_with_no_room_below_it_is_watched_by_itself() {
        let deep = topic(&["a"; 16].join("/"));
        let watch = Watch::new(deep.clone(), Time::ZERO);
        assert!(watch.filter.matches(&deep));
    }
}
