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
/// Clocks of tracks beside each other whose offsets differ by less are the same clock.
const SAME_CLOCK: i64 = 500_000_000;
const SECOND: i64 = 1_000_000_000;
/// Seconds from 1900 to 1970.
const NTP_EPOCH: i64 = 2_208_988_800;

/// The clocks of a recording.
#[derive(Debug)]
pub(super) struct Timeline {
    /// By track: clock rate, and the topic's parent.
    tracks: Vec<(i64, String)>,
    sources: BTreeMap<(usize, u32), Source>,
    /// The first moment of all.
    zero: i64,
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
    pub(super) fn new(recording: &Recording) -> Self {
        let track = |track: &crate::archive::Track| {
            let topic = track.info.topic.as_str();
            let parent = topic.rsplit_once('/').map_or("", |(parent, _)| parent);
            let rate = i64::from(track.info.media.clock_rate).max(1);
            (rate, parent.to_owned())
        };
        Self {
            tracks: recording.tracks.iter().map(track).collect(),
            sources: BTreeMap::new(),
            zero: 0,
        }
    }

    /// Takes a record of the first pass.
    pub(super) fn learn(&mut self, track: usize, record: &Record<'_>) {
        if record.kind == Kind::Packet {
            let Ok(packet) = rtp::Packet::decode(record.body) else {
                return;
            };
            let (ssrc, timestamp) = (packet.header.ssrc, packet.header.timestamp);
            let rate = self.tracks[track].0;
            let source = self.sources.entry((track, ssrc));
            source
                .or_insert_with(|| Source::new(rate, timestamp, record.time))
                .packet(timestamp, record.time);
            return;
        }
        for packet in rtcp::packets(record.body).map_while(Result::ok) {
            match packet {
                rtcp::Packet::SenderReport(info, _) => {
                    if let Some(source) = self.sources.get_mut(&(track, info.ssrc)) {
                        source.report(&info);
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
    pub(super) fn settle(&mut self) {
        let mut groups: Vec<(Group<'_>, i64)> = Vec::new();
        for ((track, _), source) in &self.sources {
            let group = Group::of(source, &self.tracks[*track].1);
            let own = source.own_offset();
            let same = |(known, offset): &&mut (Group<'_>, i64)| {
                group.is_same(known) && (*offset - own).abs() < SAME_CLOCK
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
                    group.is_same(known) && (*offset - own).abs() < SAME_CLOCK
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
    pub(super) fn time(&self, track: usize, ssrc: u32, timestamp: i64) -> Option<i64> {
        let source = self.sources.get(&(track, ssrc))?;
        Some((source.time(timestamp) - self.zero).max(0))
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
            let delay = arrival as i64 - self.media(self.last);
            self.quickest = self.quickest.min(delay);
        }
    }

    fn report(&mut self, info: &SenderInfo) {
        let seconds = (info.ntp >> 32) as i64 - NTP_EPOCH;
        let fraction = ((info.ntp & 0xffff_ffff) * SECOND as u64) >> 32;
        let wall = seconds * SECOND + fraction as i64;
        self.reports.push((unwrap(self.last, info.timestamp), wall));
    }

    /// Media time in nanoseconds.
    fn media(&self, timestamp: i64) -> i64 {
        (i128::from(timestamp) * i128::from(SECOND) / i128::from(self.rate)) as i64
    }

    /// By the report before, or by the first of all.
    fn wall(&self, timestamp: i64) -> i64 {
        let before = self.reports.iter().rev();
        let mut before = before.skip_while(|(at, _)| *at > timestamp);
        match before.next().or(self.reports.first()) {
            Some((at, wall)) => wall + self.media(timestamp - at),
            None => self.media(timestamp),
        }
    }

    fn own_offset(&self) -> i64 {
        let reported = self.reports.first();
        let reported = reported.map_or(0, |(at, wall)| wall - self.media(*at));
        self.quickest - reported
    }

    fn time(&self, timestamp: i64) -> i64 {
        self.wall(timestamp) + self.offset
    }
}

/// Counts a timestamp on beyond 32 bits.
pub(super) fn unwrap(last: i64, timestamp: u32) -> i64 {
    last + i64::from(timestamp.wrapping_sub(last as u32) as i32)
}
