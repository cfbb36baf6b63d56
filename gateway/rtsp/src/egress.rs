//! Packets as one clean stream: one source, numbers without jumps, reports of our own.

use std::time::Duration;

use sangam_archive::{Replayed, Timeline};
use sangam_wire::rtcp::{self, SenderInfo};
use sangam_wire::rtp::{Header, HeaderMut, Packet};

/// Seconds from 1900 to 1970 (RFC 3550 section 4).
const NTP_EPOCH: u64 = 2_208_988_800;
/// A sender that says of its clock what is further from when its packets came is not believed.
const APART_MAX: Duration = Duration::from_secs(1);

/// One track on its way to one player.
#[derive(Debug)]
pub(crate) struct Stream {
    ssrc: u32,
    rate: u32,
    /// Of the next packet, unless some were lost before.
    sequence: u16,
    /// The recorded source whose numbers are known, what is added to them.
    source: Option<Source>,
    /// The last packet since it began: when it had come, and its timestamp at scale 1.
    last: Option<(Duration, u32)>,
    /// A moment of the film and its timestamp; known once there is a source.
    moment: (Duration, u32),
    /// How much faster than it was recorded it is to be shown; below 0 back, with timestamps that
    /// go on.
    scale: f64,
    /// The next packet follows the last, whatever was left out between them.
    resumes: bool,
    /// The next packet is of another sender, whatever it calls itself.
    parted: bool,
    packets: u32,
    bytes: u32,
}

/// A moment of a live source's clock, in time since the epoch of this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The source.
    pub(crate) ssrc: u32,
    /// When it was.
    pub(crate) at: Duration,
    /// What its clock showed.
    pub(crate) timestamp: u32,
}

#[derive(Clone, Copy, Debug)]
struct Source {
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
}

/// Where a stream goes on, for RTP-Info.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Onset {
    /// Of its next packet.
    pub(crate) sequence: u16,
    /// At the moment from which it plays.
    pub(crate) timestamp: u32,
}

impl Stream {
    /// A stream that begins with this sequence.
    pub(crate) fn new(ssrc: u32, rate: u32, sequence: u16) -> Self {
        Self {
            ssrc,
            rate: rate.max(1),
            sequence,
            source: None,
            last: None,
            moment: (Duration::ZERO, 0),
            scale: 1.0,
            resumes: false,
            parted: false,
            packets: 0,
            bytes: 0,
        }
    }

    /// Goes on at `start`, so much faster, with these packets, which are those of its track;
    /// `None` if there is none among them. `clocks`: what their senders say of theirs.
    pub(crate) fn begin<'a>(
        &mut self,
        (start, scale): (Duration, f64),
        packets: impl Iterator<Item = &'a Replayed>,
        clocks: Option<&Timeline>,
    ) -> Option<Onset> {
        (self.source, self.last) = (None, None);
        self.scale = scale;
        let mut first: Option<(Header, &Replayed)> = None;
        // When the first packet would have come by the way of the quickest one, in nanoseconds.
        let mut quickest = i128::MAX;
        for packet in packets {
            let Ok(header) = Packet::decode(&packet.payload).map(|packet| packet.header) else {
                continue;
            };
            let (known, _) = *first.get_or_insert((header, packet));
            if known.ssrc == header.ssrc {
                let ticks = header.timestamp.wrapping_sub(known.timestamp) as i32;
                let later = i128::from(ticks) * 1_000_000_000 / i128::from(self.rate);
                quickest = quickest.min(packet.at.as_nanos() as i128 - later);
            }
        }
        let (header, packet) = first?;
        self.adopt(&header, packet.at);
        // Senders know better which of their tracks' ways is the longer, as far as can be.
        let told = clocks.and_then(|it| it.shown(packet.track, header.ssrc, header.timestamp));
        let told = told.map(i128::from);
        let shown = told.filter(|told| told.abs_diff(quickest) < APART_MAX.as_nanos());
        let shown = shown.unwrap_or(quickest);
        let sent = header.timestamp.wrapping_add(self.source?.timestamp);
        let ahead = (start.as_nanos() as i128 - shown) * i128::from(self.rate) / 1_000_000_000;
        let timestamp = sent.wrapping_add(ahead as u32);
        self.moment = (start, timestamp);
        Some(Onset {
            sequence: self.sequence,
            timestamp,
        })
    }

    /// Whether a packet of it was seen: before, no moment has a timestamp.
    pub(crate) const fn has_begun(&self) -> bool {
        self.source.is_some()
    }

    /// Its next packet has this number.
    pub(crate) const fn number_on(&mut self, sequence: u16) {
        self.sequence = sequence;
    }

    /// Goes on after a pause, with the next packet: what was not sent meanwhile is no loss.
    pub(crate) const fn resume(&mut self) {
        self.resumes = true;
    }

    /// Another sender takes the place of the present one.
    pub(crate) const fn part(&mut self) {
        self.parted = true;
    }

    /// Where a live source goes on at `at`, if a moment of its clock is known.
    pub(crate) fn onset(&self, at: Duration, moment: Moment) -> Onset {
        let timestamp = match self.source {
            Some(source) if source.ssrc == moment.ssrc && !self.parted => {
                let offset = source.timestamp;
                let ahead = self.ticks(at, moment.at);
                moment.timestamp.wrapping_add(offset).wrapping_add(ahead)
            }
            Some(_) => self.continued(at),
            None => moment.timestamp.wrapping_add(self.ticks(at, moment.at)),
        };
        Onset {
            sequence: self.sequence,
            timestamp,
        }
    }

    /// Lets reports go by this moment from now on, if it is one of the present source.
    pub(crate) fn mark(&mut self, moment: Moment) {
        if let Some(source) = self.source.filter(|source| source.ssrc == moment.ssrc) {
            self.moment = (moment.at, moment.timestamp.wrapping_add(source.timestamp));
        }
    }

    /// Gives a packet that came at `at` the stream's numbers; false if it is no RTP.
    pub(crate) fn rewrite(&mut self, bytes: &mut [u8], at: Duration) -> bool {
        let Ok(packet) = Packet::decode(bytes) else {
            return false;
        };
        let (header, len) = (packet.header, packet.payload.len());
        let mut source = match self.source {
            Some(source) if source.ssrc == header.ssrc && !self.parted => source,
            Some(_) => self.adopt(&header, at),
            None => {
                let source = self.adopt(&header, at);
                self.moment = (at, header.timestamp.wrapping_add(source.timestamp));
                source
            }
        };
        self.parted = false;
        if std::mem::take(&mut self.resumes) {
            source.sequence = self.sequence.wrapping_sub(header.sequence);
            self.source = Some(source);
        }
        let Some(mut fields) = HeaderMut::of(bytes) else {
            return false;
        };
        let (sequence, timestamp) = self.numbers(&header, source);
        fields.set_ssrc(self.ssrc);
        fields.set_sequence(sequence);
        fields.set_timestamp(timestamp);
        // Packets out of order are sent as they came.
        if sequence.wrapping_sub(self.sequence) < 1 << 15 {
            self.sequence = sequence.wrapping_add(1);
        }
        self.last = Some((at, header.timestamp.wrapping_add(source.timestamp)));
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(len as u32);
        true
    }

    fn numbers(&self, header: &Header, source: Source) -> (u16, u32) {
        let timestamp = header.timestamp.wrapping_add(source.timestamp);
        let sequence = header.sequence.wrapping_add(source.sequence);
        if self.scale == 1.0 {
            return (sequence, timestamp);
        }
        // RFC 2326 section 12.34: timestamps are those of the time in which it is shown.
        let begin = self.moment.1;
        let ahead = f64::from(timestamp.wrapping_sub(begin) as i32) / self.scale;
        // What was left out between key frames is no loss.
        let sequence = match !(0.0..=1.0).contains(&self.scale) {
            true => self.sequence,
            false => sequence,
        };
        (sequence, begin.wrapping_add(ahead as i64 as u32))
    }

    /// Another source: its numbers go on where those of the one before ended.
    fn adopt(&mut self, header: &Header, at: Duration) -> Source {
        let timestamp = match self.source {
            // It takes the place of another within the film.
            Some(_) => self.continued(at).wrapping_sub(header.timestamp),
            None => 0,
        };
        let source = Source {
            ssrc: header.ssrc,
            sequence: self.sequence.wrapping_sub(header.sequence),
            timestamp,
        };
        self.source = Some(source);
        source
    }

    /// The timestamp of `at` behind the last packet.
    fn continued(&self, at: Duration) -> u32 {
        let (then, last) = self.last.unwrap_or(self.moment);
        last.wrapping_add(match self.scale < 0.0 {
            true => self.ticks(at, then),
            false => self.ticks(at.max(then), then),
        })
    }

    /// From `then` to `at` in units of the clock.
    fn ticks(&self, at: Duration, then: Duration) -> u32 {
        let passed = at.as_nanos() as i128 - then.as_nanos() as i128;
        (passed * i128::from(self.rate) / 1_000_000_000) as u32
    }

    /// A report (RFC 3550 section 6.4.1): it is now `ntp`, and the film is at `at`.
    pub(crate) fn report(&self, at: Duration, ntp: u64) -> Vec<u8> {
        let mut compound = Vec::new();
        match self.has_begun() {
            true => rtcp::sender_report(&mut compound, &self.info(at, ntp), &[]),
            // RFC 3550 section 6.4: who sent nothing has a receiver's report.
            false => rtcp::receiver_report(&mut compound, self.ssrc, &[]),
        }
        // One name for all tracks: they have one clock.
        rtcp::source_name(&mut compound, self.ssrc, "sangam");
        compound
    }

    fn info(&self, at: Duration, ntp: u64) -> SenderInfo {
        let (moment, timestamp) = self.moment;
        let passed = at.as_nanos() as i128 - moment.as_nanos() as i128;
        let ticks = passed * i128::from(self.rate) / 1_000_000_000;
        let ticks = (ticks as f64 / self.scale) as i64;
        SenderInfo {
            ssrc: self.ssrc,
            ntp,
            timestamp: timestamp.wrapping_add(ticks as u32),
            packets: self.packets,
            bytes: self.bytes,
        }
    }

    /// Who sends it.
    pub(crate) const fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Where it stops, at `at`.
    pub(crate) fn end(&self, at: Duration) -> Onset {
        Onset {
            sequence: self.sequence,
            timestamp: self.info(at, 0).timestamp,
        }
    }

    /// The same with its end (RFC 3550 section 6.6).
    pub(crate) fn bye(&self, at: Duration, ntp: u64) -> Vec<u8> {
        let mut compound = self.report(at, ntp);
        rtcp::bye(&mut compound, self.ssrc);
        compound
    }
}

/// RFC 3550 section 4: seconds since 1900 and their fraction.
pub(crate) fn ntp(since_1970: Duration) -> u64 {
    let seconds = since_1970.as_secs().wrapping_add(NTP_EPOCH) << 32;
    seconds | ((u64::from(since_1970.subsec_nanos()) << 32) / 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn packet(ssrc: u32, (sequence, timestamp): (u16, u32), at: Duration) -> Replayed {
        let header = Header {
            marker: false,
            payload_type: 96,
            sequence,
            timestamp,
            ssrc,
        };
        Replayed {
            at,
            track: 0,
            is_rtcp: false,
            flags: 0,
            layer: 0,
            payload: [&header.encode()[..], b"x"].concat(),
        }
    }

    fn send(stream: &mut Stream, mut packet: Replayed) -> (u16, u32) {
        assert!(stream.rewrite(&mut packet.payload, packet.at));
        let header = Packet::decode(&packet.payload).unwrap().header;
        assert_eq!(header.ssrc, 7);
        (header.sequence, header.timestamp)
    }

    #[test]
    fn numbers_go_on_where_the_player_jumps() {
        let mut stream = Stream::new(7, 1_000, 65_535);
        let first = [
            packet(1, (10, 5_000), MS * 20),
            packet(1, (11, 5_040), MS * 40),
        ];
        let onset = stream.begin((MS * 10, 1.0), first.iter(), None).unwrap();
        // The second had the quicker way: the first counts as come at 0.
        assert_eq!(
            onset,
            Onset {
                sequence: 65_535,
                timestamp: 5_010
            }
        );
        let [one, two] = first;
        assert_eq!(send(&mut stream, one), (65_535, 5_000));
        assert_eq!(send(&mut stream, two), (0, 5_040));
        let later = [packet(1, (900, 50_000), MS * 45_000)];
        let onset = stream
            .begin((MS * 45_000, 1.0), later.iter(), None)
            .unwrap();
        assert_eq!(
            onset,
            Onset {
                sequence: 1,
                timestamp: 50_000
            }
        );
        let [one] = later;
        assert_eq!(send(&mut stream, one), (1, 50_000));
    }

    #[test]
    fn losses_stay_and_another_source_goes_on() {
        let mut stream = Stream::new(7, 1_000, 100);
        assert_eq!(send(&mut stream, packet(1, (10, 0), MS)), (100, 0));
        assert_eq!(send(&mut stream, packet(1, (12, 2), MS * 3)), (102, 2));
        assert_eq!(send(&mut stream, packet(1, (11, 1), MS * 4)), (101, 1));
        // Ten milliseconds behind the last.
        let other = packet(2, (7, 800), MS * 14);
        assert_eq!(send(&mut stream, other), (103, 11));
        assert!(!stream.rewrite(&mut [0; 3], MS));
    }

    #[test]
    fn slow_motion_keeps_losses_and_its_pace_where_another_source_goes_on() {
        let mut stream = Stream::new(7, 1_000, 100);
        let first = [packet(1, (10, 0), MS * 1_000)];
        stream.begin((MS * 1_000, 0.5), first.iter(), None).unwrap();
        let [one] = first;
        assert_eq!(send(&mut stream, one), (100, 0));
        let later = packet(1, (12, 500), MS * 1_500);
        assert_eq!(send(&mut stream, later), (102, 1_000));
        let other = packet(2, (7, 800), MS * 1_600);
        assert_eq!(send(&mut stream, other), (103, 1_200));
        // What was sent before a jump says nothing about the time behind it.
        let first = [packet(1, (90, 9_000), MS * 9_000)];
        stream.begin((MS * 9_000, 1.0), first.iter(), None).unwrap();
        let other = packet(2, (8, 1_000), MS * 9_100);
        assert_eq!(send(&mut stream, other), (104, 9_100));
        // More ticks than 31 bits have.
        let first = [packet(1, (0, 0), MS)];
        stream.begin((MS, 0.25), first.iter(), None).unwrap();
        let late = packet(1, (1, 1 << 30), MS * (1 << 30));
        assert_eq!(send(&mut stream, late).1, 0);
    }

    #[test]
    fn pictures_that_go_back_have_timestamps_that_go_on() {
        let mut stream = Stream::new(7, 1_000, 100);
        let packets = [
            packet(1, (50, 9_000), MS * 9_000),
            packet(1, (30, 7_000), MS * 7_000),
        ];
        let onset = stream
            .begin((MS * 9_500, -2.0), packets.iter(), None)
            .unwrap();
        assert_eq!((onset.sequence, onset.timestamp), (100, 9_500));
        let [one, two] = packets;
        assert_eq!(send(&mut stream, one), (100, 9_750));
        assert_eq!(send(&mut stream, two), (101, 10_750));
        // Who was there before another has a clock of his own.
        assert_eq!(
            send(&mut stream, packet(2, (7, 77), MS * 5_000)),
            (102, 11_750)
        );
        assert_eq!(stream.info(MS * 5_000, 0).timestamp, 11_750);
    }

    #[test]
    fn a_track_that_begins_later_is_reported_on_from_then_on() {
        let mut stream = Stream::new(7, 1_000, 0);
        assert_eq!(stream.begin((MS, 1.0), [].iter(), None), None);
        assert!(!stream.has_begun());
        let report = stream.report(MS * 500, 0);
        let first = rtcp::packets(&report).next().unwrap().unwrap();
        assert!(
            matches!(first, rtcp::Packet::ReceiverReport(7, _)),
            "{first:?}"
        );
        send(&mut stream, packet(1, (0, 500), MS * 2_000));
        assert_eq!(stream.info(MS * 2_100, 0).timestamp, 600);
    }

    #[test]
    fn a_live_source_goes_on_after_a_pause_and_after_another_took_its_place() {
        let mut stream = Stream::new(7, 1_000, 100);
        let moment = Moment {
            ssrc: 1,
            at: MS * 1_000,
            timestamp: 5_000,
        };
        let onset = stream.onset(MS * 1_020, moment);
        assert_eq!((onset.sequence, onset.timestamp), (100, 5_020));
        let one = packet(1, (10, 5_020), MS * 1_020);
        assert_eq!(send(&mut stream, one), (100, 5_020));
        // Two seconds later, and a hundred packets that nobody was sent.
        stream.resume();
        let onset = stream.onset(MS * 3_020, moment);
        assert_eq!((onset.sequence, onset.timestamp), (101, 7_020));
        let one = packet(1, (110, 7_020), MS * 3_020);
        assert_eq!(send(&mut stream, one), (101, 7_020));
        // The sender begins anew and calls itself the same.
        stream.part();
        let onset = stream.onset(MS * 3_120, moment);
        assert_eq!((onset.sequence, onset.timestamp), (102, 7_120));
        let one = packet(1, (9, 70), MS * 3_120);
        assert_eq!(send(&mut stream, one), (102, 7_120));
        let one = packet(1, (10, 90), MS * 3_140);
        assert_eq!(send(&mut stream, one), (103, 7_140));
        // Reports go by the source's clock; by that of another they do not.
        stream.mark(Moment {
            ssrc: 1,
            at: MS * 3_100,
            timestamp: 70,
        });
        stream.mark(Moment { ssrc: 2, ..moment });
        assert_eq!(stream.info(MS * 4_100, 0).timestamp, 8_120);
    }

    #[test]
    fn reports_and_rtp_info_say_the_same() {
        let mut stream = Stream::new(7, 1_000, 0);
        let first = [packet(1, (0, 500), MS * 100)];
        stream.begin((MS * 100, 1.0), first.iter(), None).unwrap();
        let report = stream.bye(MS * 1_100, ntp(Duration::from_secs(1)));
        let all: Vec<_> = rtcp::packets(&report).map(Result::unwrap).collect();
        let [
            rtcp::Packet::SenderReport(info, _),
            rtcp::Packet::SourceName(7, b"sangam"),
            _,
        ] = all[..]
        else {
            panic!("{all:?}");
        };
        assert_eq!((info.timestamp, info.ntp), (1_500, (NTP_EPOCH + 1) << 32));
    }
}
