//! When each frame is to be shown, so that picture and sound of a sender stay in step.
//!
//! A sender report says which moment of the sender's wall clock a timestamp is (RFC 3550 section
//! 6.4.1). Tracks with one wall clock share its offset to ours, so that a longer way of one of
//! them does not part them. Without reports a track stands where its quickest packet came.

use std::collections::BTreeMap;

use sangam_wire::rtcp::{self, SenderInfo};
use sangam_wire::rtp;

use crate::archive::Recording;
use crate::record::{Kind, Record};

/// The quickest packet is looked for in the begin of a source: later, clocks have drifted.
const LOOK: u64 = 10_000_000_000;
/// Sources of a recording; frames of others are left out.
pub(crate) const SOURCES_MAX: usize = 4_096;
/// Reports of a recording: 16 MiB; from the last of a source its clock is counted on.
const REPORTS_MAX: usize = 1 << 20;
/// No film is longer: nine years, so that times in any clock rate fit 64 bits.
const TIME_MAX: i64 = 1 << 58;
/// Clocks of tracks beside each other whose offsets differ by less are the same clock.
const SAME_CLOCK: u64 = 500_000_000;
const SECOND: i64 = 1_000_000_000;
/// Seconds from 1900 to 1970.
const NTP_EPOCH: i64 = 2_208_988_800;

/// The clocks of a recording.
#[derive(Debug)]
pub struct Timeline {
    /// By track: clock rate, and the topic's parent.
    tracks: Vec<(i64, String)>,
    sources: BTreeMap<(usize, u32), Source>,
    reports: usize,
    /// The first moment of all.
    zero: i64,
    /// When the recording began.
    begin: u64,
}

/// One SSRC of a track.
#[derive(Debug)]
struct Source {
    rate: i64,
    first: i64,
    began: u64,
    last: i64,
    /// The least of arrival less media time, in nanoseconds.
    quickest: i64,
    /// Timestamp and the sender's wall clock.
    reports: Vec<(i64, i64)>,
    name: Option<Vec<u8>>,
    /// From the wall clock of the sender, or from media time if there is none, to ours.
    offset: i64,
}

impl Timeline {
    pub(crate) fn new(recording: &Recording) -> Self {
        let track = |track: &crate::archive::Track| {
            let topic = track.info.topic.as_str();
            let parent = topic.rsplit_once('/').map_or("", |(parent, _)| parent);
            let rate = i64::from(track.info.media.clock_rate).max(1);
            (rate, parent.to_owned())
        };
        Self {
            tracks: recording.tracks.iter().map(track).collect(),
            sources: BTreeMap::new(),
            reports: 0,
            zero: 0,
            begin: recording.begin,
        }
    }

    /// Takes a record of the first pass.
    pub(crate) fn learn(&mut self, track: usize, record: &Record<'_>) {
        if record.kind == Kind::Packet {
            let Ok(packet) = rtp::Packet::decode(record.body) else {
                return;
            };
            let (ssrc, timestamp) = (packet.header.ssrc, packet.header.timestamp);
            let rate = self.tracks[track].0;
            let is_known = self.sources.contains_key(&(track, ssrc));
            if !is_known && self.sources.len() == SOURCES_MAX {
                return;
            }
            let source = self.sources.entry((track, ssrc));
            source
                .or_insert_with(|| Source::new(rate, timestamp, record.time))
                .packet(timestamp, record.time);
            return;
        }
        for packet in rtcp::packets(record.body).map_while(Result::ok) {
            match packet {
                rtcp::Packet::SenderReport(info, _) => {
                    let source = self.sources.get_mut(&(track, info.ssrc));
                    if let Some(source) = source.filter(|_| self.reports < REPORTS_MAX) {
                        self.reports += usize::from(source.report(&info));
                    }
                }
                rtcp::Packet::SourceName(ssrc, name) => {
                    if let Some(source) = self.sources.get_mut(&(track, ssrc)) {
                        source.name = Some(name.to_vec());
                    }
                }
                _ => {}
            }
        }
    }

    /// Ends the first pass: puts the clocks together.
    pub(crate) fn settle(&mut self) {
        for source in self.sources.values_mut() {
            source.reports.sort_by_key(|(at, _)| *at);
        }
        let mut groups: Vec<(Group<'_>, i64)> = Vec::new();
        for ((track, _), source) in &self.sources {
            let group = Group::of(source, &self.tracks[*track].1);
            let own = source.own_offset();
            let same = |(known, offset): &&mut (Group<'_>, i64)| {
                group.is_same(known) && offset.abs_diff(own) < SAME_CLOCK
            };
            match groups.iter_mut().find(same) {
                Some((_, offset)) => *offset = own.min(*offset),
                None => groups.push((group, own)),
            }
        }
        let offsets: Vec<_> = self
            .sources
            .iter()
            .map(|((track, _), source)| {
                let group = Group::of(source, &self.tracks[*track].1);
                let own = source.own_offset();
                let found = groups.iter().find(|(known, offset)| {
                    group.is_same(known) && offset.abs_diff(own) < SAME_CLOCK
                });
                found.map_or(own, |(_, offset)| *offset)
            })
            .collect();
        for (source, offset) in self.sources.values_mut().zip(offsets) {
            source.offset = offset;
        }
        let firsts = self
            .sources
            .values()
            .map(|source| source.time(source.first));
        self.zero = firsts.min().unwrap_or(0);
    }

    /// When a frame is to be shown, in nanoseconds since the first; `None` for unknown sources.
    pub(crate) fn time(&self, track: usize, ssrc: u32, timestamp: i64) -> Option<i64> {
        let source = self.sources.get(&(track, ssrc))?;
        let time = source.time(timestamp).saturating_sub(self.zero);
        Some(time.clamp(0, TIME_MAX))
    }

    /// When what a source of a track sent with this timestamp is to be shown, in nanoseconds since
    /// the begin of the recording; `None` for a source of which no packet was seen.
    #[must_use]
    pub fn shown(&self, track: usize, ssrc: u32, timestamp: u32) -> Option<i64> {
        let source = self.sources.get(&(track, ssrc))?;
        let begin = i64::try_from(self.begin).unwrap_or(i64::MAX);
        let time = source.time(unwrap(source.first, timestamp));
        Some(time.saturating_sub(begin))
    }
}

/// Who may share a clock.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Group<'a> {
    /// RFC 3550 section 6.5.1: one canonical name, one clock.
    Name(&'a [u8]),
    /// No name was told: tracks beside each other.
    Parent(&'a str),
    /// No reports.
    Alone,
}

impl<'a> Group<'a> {
    fn of(source: &'a Source, parent: &'a str) -> Self {
        match (&source.name, source.reports.is_empty()) {
            (_, true) => Self::Alone,
            (Some(name), false) => Self::Name(name),
            (None, false) => Self::Parent(parent),
        }
    }

    fn is_same(&self, other: &Group<'_>) -> bool {
        *self != Self::Alone && self == other
    }
}

impl Source {
    fn new(rate: i64, timestamp: u32, began: u64) -> Self {
        let first = i64::from(timestamp);
        Self {
            rate,
            first,
            began,
            last: first,
            quickest: i64::MAX,
            reports: Vec::new(),
            name: None,
            offset: 0,
        }
    }

    fn packet(&mut self, timestamp: u32, arrival: u64) {
        self.last = unwrap(self.last, timestamp);
        self.first = self.first.min(self.last);
        if arrival.saturating_sub(self.began) < LOOK {
            let arrival = i64::try_from(arrival).unwrap_or(i64::MAX);
            let delay = arrival.saturating_sub(self.media(self.last));
            self.quickest = self.quickest.min(delay);
        }
    }

    /// Whether the report was taken.
    fn report(&mut self, info: &SenderInfo) -> bool {
        // RFC 3550 section 6.4.1: a sender without a wall clock says 0.
        if info.ntp == 0 {
            return false;
        }
        let seconds = (info.ntp >> 32) as i64 - NTP_EPOCH;
        let fraction = ((info.ntp & 0xffff_ffff) * SECOND as u64) >> 32;
        let wall = seconds * SECOND + fraction as i64;
        self.reports.push((unwrap(self.last, info.timestamp), wall));
        true
    }

    /// Media time in nanoseconds.
    fn media(&self, timestamp: i64) -> i64 {
        let time = i128::from(timestamp) * i128::from(SECOND) / i128::from(self.rate);
        time.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }

    /// By the report before, or by the first of all.
    fn wall(&self, timestamp: i64) -> i64 {
        let before = self.reports.partition_point(|(at, _)| *at <= timestamp);
        match self.reports.get(before.saturating_sub(1)) {
            Some((at, wall)) => wall.saturating_add(self.media(timestamp - at)),
            None => self.media(timestamp),
        }
    }

    fn own_offset(&self) -> i64 {
        let reported = self.reports.first();
        let reported = reported.map_or(0, |(at, wall)| wall.saturating_sub(self.media(*at)));
        self.quickest.saturating_sub(reported)
    }

    fn time(&self, timestamp: i64) -> i64 {
        self.wall(timestamp).saturating_add(self.offset)
    }
}

/// Counts a timestamp on beyond 32 bits.
pub(crate) fn unwrap(last: i64, timestamp: u32) -> i64 {
    last + i64::from(timestamp.wrapping_sub(last as u32) as i32)
}

#[cfg(test)]
mod tests {
    use sangam_model::{Class, MediaInfo, Topic};
    use sangam_wire::rtp::Header;

    use super::*;
    use crate::archive::Track;
    use crate::record::{RecordingId, TrackInfo};

    const MS: u64 = 1_000_000;

    fn timeline(clock_rate: u32) -> Timeline {
        let media = MediaInfo {
            class: Class::Audio,
            payload_type: 111,
            channels: 1,
            clock_rate,
            encoding: "opus".to_owned(),
            fmtp: String::new(),
        };
        let track = |number| Track {
            number,
            info: TrackInfo {
                reliable: false,
                recording: RecordingId(1),
                topic: Topic::new("a/b").unwrap(),
                media: media.clone(),
            },
            packets: 0,
            bytes: 0,
            first: 0,
            last: 0,
        };
        Timeline::new(&Recording {
            id: RecordingId(1),
            name: String::new(),
            begin: 0,
            end: 0,
            whole: true,
            tracks: vec![track(1), track(2)],
            segments: Vec::new(),
        })
    }

    fn packet(timeline: &mut Timeline, track: usize, (ssrc, timestamp, time): (u32, u32, u64)) {
        let header = Header {
            marker: false,
            payload_type: 111,
            sequence: 0,
            timestamp,
            ssrc,
        };
        let bytes = [&header.encode()[..], b"x"].concat();
        timeline.learn(track, &Record::new(Kind::Packet, time, &bytes));
    }

    fn report(timeline: &mut Timeline, track: usize, (ssrc, timestamp, ntp): (u32, u32, u64)) {
        let mut bytes = Vec::new();
        let info = SenderInfo {
            ssrc,
            ntp,
            timestamp,
            ..SenderInfo::default()
        };
        rtcp::sender_report(&mut bytes, &info, &[]);
        timeline.learn(track, &Record::new(Kind::Rtcp, 0, &bytes));
    }

    #[test]
    fn a_sender_without_a_wall_clock_stands_where_its_packets_came() {
        let mut timeline = timeline(48_000);
        // Two seconds by its reports, which all say the same moment, are one by its packets.
        for (timestamp, time) in [(0, 0), (48_000, 1_000 * MS), (96_000, 2_000 * MS)] {
            packet(&mut timeline, 0, (7, timestamp, time));
            report(&mut timeline, 0, (7, timestamp, 0));
        }
        timeline.settle();
        assert_eq!(timeline.time(0, 7, 96_000), Some(2_000_000_000));
    }

    #[test]
    fn of_many_reports_the_one_before_counts() {
        let mut timeline = timeline(48_000);
        let wall = 3_900_000_000_u64;
        packet(&mut timeline, 0, (7, 0, 0));
        // The sender's clock goes two seconds on in each second of media.
        for second in 0..1_000 {
            let ntp = (wall + 2 * second) << 32;
            report(&mut timeline, 0, (7, 48_000 * second as u32, ntp));
        }
        timeline.settle();
        let at = |timestamp| timeline.time(0, 7, timestamp);
        assert_eq!(at(0), Some(0));
        assert_eq!(at(48_000 * 400 + 24_000), Some(800_500_000_000));
    }

    #[test]
    fn hostile_sources_are_bounded_and_overflow_nothing() {
        let mut timeline = timeline(0);
        for ssrc in 0..SOURCES_MAX as u32 + 100 {
            let time = if ssrc % 2 == 0 { u64::MAX } else { 0 };
            packet(&mut timeline, 0, (ssrc, 0x7fff_ffff, time));
            report(&mut timeline, 0, (ssrc, u32::MAX, u64::MAX));
            packet(&mut timeline, 0, (ssrc, u32::MAX - 1, time));
            report(&mut timeline, 0, (ssrc, 1, 1));
        }
        timeline.settle();
        assert_eq!(timeline.sources.len(), SOURCES_MAX);
        for ssrc in 0..SOURCES_MAX as u32 {
            for timestamp in [-(1 << 40), 0, 1 << 40] {
                let time = timeline.time(0, ssrc, timestamp);
                assert!(time.is_some_and(|time| (0..=TIME_MAX).contains(&time)));
            }
        }
        assert_eq!(timeline.time(0, SOURCES_MAX as u32, 0), None);
    }
}
