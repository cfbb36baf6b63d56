//! A film as packets of RTP (RFC 2250), read from its blocks.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sangam_model::{Class, MediaInfo, Topic};
use sangam_wire::Flags;
use sangam_wire::rtp::Header;

use super::packets::PACKET;
use super::wind::Wind;
use super::{Film, FilmError, Films};
use crate::archive::{Recording, Track};
use crate::blocks::{BlockError, Store};
use crate::record::{RecordingId, TrackInfo};
use crate::replay::Replayed;

/// Packets of a transport stream in a datagram: more do not fit into 1,500 bytes.
pub const PACKETS: usize = 7;
/// Bytes of them.
pub const DATAGRAM: usize = PACKETS * PACKET;
/// RFC 3551 section 6: MP2T.
const PAYLOAD_TYPE: u8 = 33;
const CLOCK_RATE: u64 = 90_000;
/// Of the packets; whoever sends them gives them his own.
const SOURCE: u32 = 0x5361_6e67;

/// Reads a film, datagram after datagram.
#[derive(Debug)]
pub struct Play {
    films: Arc<Films>,
    pub(super) film: Arc<Film>,
    /// The datagram that comes next.
    next: u64,
    /// The block that it is in, once it was read.
    pub(super) block: Option<(u64, Arc<Vec<u8>>)>,
    is_patient: bool,
    /// It is wound.
    pub(super) wind: Option<Box<Wind>>,
}

impl Film {
    /// The film as a recording of one track, for whoever plays those.
    #[must_use]
    pub fn as_recording(&self) -> Option<Recording> {
        let nanoseconds = u64::try_from(self.index.length().as_nanos()).ok()?;
        let id = RecordingId(self.object.id);
        let media = MediaInfo {
            class: Class::Video,
            payload_type: PAYLOAD_TYPE,
            channels: 0,
            clock_rate: CLOCK_RATE as u32,
            encoding: "MP2T".to_owned(),
            fmtp: String::new(),
        };
        let info = TrackInfo {
            reliable: false,
            recording: id,
            topic: Topic::new("film").ok()?,
            media,
        };
        let track = Track {
            number: 0,
            info,
            packets: self.datagrams(),
            bytes: self.object.bytes,
            first: 0,
            last: nanoseconds,
        };
        Some(Recording {
            id,
            name: self.object.name.clone(),
            begin: 0,
            end: nanoseconds,
            whole: true,
            tracks: vec![track],
            segments: Vec::new(),
        })
    }

    /// Datagrams of it; the last may be shorter.
    #[must_use]
    pub fn datagrams(&self) -> u64 {
        self.object.bytes.div_ceil(DATAGRAM as u64)
    }

    /// Datagrams in a block.
    #[must_use]
    pub fn in_block(&self) -> u64 {
        (u64::from(self.object.block_len) / DATAGRAM as u64).max(1)
    }
}

impl Play {
    /// From the begin.
    #[must_use]
    pub const fn new(films: Arc<Films>, film: Arc<Film>) -> Self {
        Self {
            films,
            film,
            next: 0,
            block: None,
            is_patient: true,
            wind: None,
        }
    }

    /// Whether a disk that is slow is waited for; [`Play::pull`] fails with
    /// [`io::ErrorKind::TimedOut`] otherwise, and can be called again.
    pub const fn set_patient(&mut self, is_patient: bool) {
        self.is_patient = is_patient;
    }

    /// Whether blocks may come over a network.
    #[must_use]
    pub fn is_far(&self) -> bool {
        let present = self.films.present();
        present.is_ok_and(|(roster, _)| roster.is_far())
    }

    /// Goes to the last place at or before `to` from which the film can be shown; when that is.
    pub fn seek(&mut self, to: Duration) -> Duration {
        self.wind = None;
        self.next = self.film.index.start(to) / PACKETS as u64;
        self.film.index.at(self.next * PACKETS as u64)
    }

    /// The next datagram; `None` at the end.
    ///
    /// # Errors
    /// A block is lost.
    pub fn pull(&mut self) -> io::Result<Option<Replayed>> {
        if let Some(mut wind) = self.wind.take() {
            let next = self.pull_wound(&mut wind);
            self.wind = Some(wind);
            return next;
        }
        if self.next >= self.film.datagrams() {
            return Ok(None);
        }
        let number = self.next / self.film.in_block();
        let place = (self.next % self.film.in_block()) as usize * DATAGRAM;
        let bytes = match &self.block {
            Some((known, bytes)) if *known == number => bytes.clone(),
            _ => self.read(number)?,
        };
        let rest = bytes.get(place..).unwrap_or_default();
        let data = &rest[..rest.len().min(DATAGRAM)];
        let at = self.film.index.at(self.next * PACKETS as u64);
        let next = packet_of(at, self.next, data);
        self.next += 1;
        Ok(Some(next))
    }

    /// A block, and then the one behind it into memory.
    fn read(&mut self, number: u64) -> io::Result<Arc<Vec<u8>>> {
        let (bytes, store) = self.fetch(number)?;
        let next = number + 1;
        let by = Instant::now() + self.begin(next).saturating_sub(self.begin(number));
        let ahead = &self.films.ahead;
        ahead.want(store, (self.film.clone(), next), by);
        Ok(bytes)
    }

    /// When a block begins, in the film's time.
    fn begin(&self, block: u64) -> Duration {
        let packet = block * self.film.in_block() * PACKETS as u64;
        self.film.index.at(packet)
    }

    /// A block, which is held from then on.
    pub(super) fn fetch(&mut self, number: u64) -> io::Result<(Arc<Vec<u8>>, Arc<Store>)> {
        let bytes = self.films.share_block(&self.film, number, self.is_patient);
        let (bytes, store) = bytes.map_err(|error| {
            let kind = match &error {
                _ if !self.films.has(self.film.object.id) => io::ErrorKind::NotFound,
                FilmError::Blocks(BlockError::Unread(_, _, error)) => error.kind(),
                _ => io::ErrorKind::Other,
            };
            io::Error::new(kind, error.to_string())
        })?;
        self.block = Some((number, bytes.clone()));
        Ok((bytes, store))
    }
}

/// A datagram of a film, due at `at`.
pub(super) fn packet_of(at: Duration, number: u64, data: &[u8]) -> Replayed {
    let ticks = at.as_nanos() * u128::from(CLOCK_RATE) / 1_000_000_000;
    let header = Header {
        // RFC 2250 section 2: where time jumps, which it does not here.
        marker: false,
        payload_type: PAYLOAD_TYPE,
        sequence: number as u16,
        timestamp: ticks as u32,
        ssrc: SOURCE,
    };
    Replayed {
        at,
        track: 0,
        is_rtcp: false,
        // Each may be left out, or none.
        flags: Flags::KEY.bits(),
        layer: 0,
        payload: [&header.encode()[..], data].concat(),
    }
}

impl Films {
    /// A block of a film, read once for all who play it.
    ///
    /// # Errors
    /// It is lost.
    pub fn share_block(
        &self,
        film: &Film,
        number: u64,
        is_patient: bool,
    ) -> Result<(Arc<Vec<u8>>, Arc<Store>), FilmError> {
        let share = |store: &Store| match is_patient {
            true => store.share(&film.object, number),
            false => store.share_soon(&film.object, number, Instant::now()),
        };
        let (_, store) = self.present()?;
        match share(&store) {
            Ok(bytes) => return Ok((bytes, store)),
            // It was waited for.
            Err(error @ BlockError::Unread(..)) => return Err(error.into()),
            Err(_) => {}
        }
        // A disk may have come back, or blocks have gone to one that is not known here yet.
        self.look_again();
        let (_, store) = self.present()?;
        let bytes = share(&store)?;
        Ok((bytes, store))
    }
}
