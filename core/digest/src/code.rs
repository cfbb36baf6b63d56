//! Rows as bytes. Integers are LEB128, what may be absent stands in a bit mask before them.

use core::fmt;

use sangam_model::{BrokerId, Time};

use crate::digest::{BEAT_MAX, BROKER, Digest, LINK, LINKS_MAX, Link, Names, Row, WORD_MAX};
use crate::merger::MEMBERS_MAX;

/// Bytes of one event: fewer than the largest event has.
pub const EVENT_LEN_MAX: usize = 15_360;

const VERSION: u8 = 1;
const BEAT: u8 = 1;
const DIGEST: u8 = 2;
/// Parts of a digest.
const FIGURES: u8 = 1;
const NAMES: u8 = 2;
/// Parts of a link.
const PEER: u8 = 1;
const WAY: u8 = 2;
/// Ages are told in steps of this many microseconds.
const STEP_US: u64 = 10_000;
/// Rows of one event: a digest of each member and some of their links, and a beat.
const ROWS_MAX: usize = 2 * MEMBERS_MAX + 1;

/// An event's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Brokers on the writer's map.
    pub brokers: u64,
    /// What it tells.
    pub rows: Vec<Row>,
}

/// Why bytes are no rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// They end too early, or hold what cannot be.
    Malformed,
    /// They were written by a version that this one does not know.
    Version(u8),
    /// More rows, links, brokers or characters than there may be.
    Unbounded,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("not a digest"),
            Self::Version(version) => write!(f, "a digest of version {version}"),
            Self::Unbounded => f.write_str("a digest beyond its bounds"),
        }
    }
}

impl core::error::Error for DecodeError {}

impl Merged {
    /// The event's content, with ages as of `now`: longer than [`EVENT_LEN_MAX`] only if more is
    /// told than one broker's digest.
    #[must_use]
    pub fn encode(&self, now: Time) -> Vec<u8> {
        let mut out = header(self.brokers);
        self.rows.iter().for_each(|row| encode(&mut out, now, row));
        out
    }
}

/// Begins an event.
#[must_use]
pub(crate) fn header(brokers: u64) -> Vec<u8> {
    let mut out = vec![VERSION];
    number(&mut out, brokers);
    out
}

/// Appends a row, with ages as of `now`.
pub fn encode(out: &mut Vec<u8>, now: Time, row: &Row) {
    match row {
        Row::Beat(alive) => {
            out.push(BEAT);
            number(out, alive.len() as u64);
            for (broker, heard) in alive {
                out.extend(broker.0.to_be_bytes());
                number(out, age(now, *heard));
            }
        }
        Row::Digest(digest) => {
            out.push(DIGEST);
            write_digest(out, now, digest);
        }
    }
}

/// How many brokers the writer of an event knew; `None` if it is none.
#[must_use]
pub fn brokers(bytes: &[u8]) -> Option<u64> {
    let now = Time::ZERO;
    let mut from = Reader { now, bytes };
    from.byte().ok().filter(|version| *version == VERSION)?;
    from.number().ok()
}

/// Reads an event that arrived at `now`.
///
/// # Errors
/// See [`DecodeError`].
pub fn decode(now: Time, bytes: &[u8]) -> Result<Merged, DecodeError> {
    let mut from = Reader { now, bytes };
    match from.byte()? {
        VERSION => {}
        other => return Err(DecodeError::Version(other)),
    }
    let brokers = from.number()?;
    let mut rows = Vec::new();
    while !from.bytes.is_empty() {
        if rows.len() == ROWS_MAX {
            return Err(DecodeError::Unbounded);
        }
        rows.push(match from.byte()? {
            BEAT => Row::Beat(from.beat()?),
            DIGEST => Row::Digest(from.digest()?),
            _ => return Err(DecodeError::Malformed),
        });
    }
    Ok(Merged { brokers, rows })
}

fn write_digest(out: &mut Vec<u8>, now: Time, digest: &Digest) {
    out.extend(digest.broker.0.to_be_bytes());
    out.push(digest.incarnation);
    number(out, digest.number);
    number(out, age(now, digest.at));
    let part = |there, flag| if there { flag } else { 0 };
    out.push(part(digest.figures.is_some(), FIGURES) | part(digest.names.is_some(), NAMES));
    if let Some(values) = &digest.figures {
        figures(out, values);
    }
    if let Some(names) = &digest.names {
        for word in [&names.name, &names.version, &names.region] {
            text(out, word);
        }
    }
    number(out, digest.links.len() as u64);
    for link in &digest.links {
        let told = link.way.iter().any(|word| !word.is_empty());
        out.push(part(link.peer.is_some(), PEER) | part(told, WAY));
        if let Some(peer) = link.peer {
            out.extend(peer.0.to_be_bytes());
        }
        if told {
            link.way.iter().for_each(|word| text(out, word));
        }
        number(out, age(now, link.at));
        figures(out, &link.figures);
    }
}

fn age(now: Time, then: Time) -> u64 {
    now.since(then).as_micros() as u64 / STEP_US
}

fn figures(out: &mut Vec<u8>, values: &[Option<u64>]) {
    let bits = (0..).zip(values).filter(|(_, value)| value.is_some());
    number(out, bits.fold(0, |mask, (bit, _)| mask | 1 << bit));
    values
        .iter()
        .flatten()
        .for_each(|value| number(out, *value));
}

fn number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn text(out: &mut Vec<u8>, word: &str) {
    let ends = word.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|end| *end <= WORD_MAX).last().unwrap_or(0);
    number(out, end as u64);
    out.extend(word.as_bytes().get(..end).unwrap_or_default());
}

struct Reader<'a> {
    now: Time,
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, DecodeError> {
        let (first, rest) = self.bytes.split_first().ok_or(DecodeError::Malformed)?;
        self.bytes = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            // The tenth byte has one bit left.
            if shift == 63 && part > 1 {
                break;
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Malformed)
    }

    fn count(&mut self, most: usize) -> Result<usize, DecodeError> {
        let count = usize::try_from(self.number()?).ok();
        count
            .filter(|count| *count <= most)
            .ok_or(DecodeError::Unbounded)
    }

    fn broker(&mut self) -> Result<BrokerId, DecodeError> {
        let (id, rest) = self
            .bytes
            .split_first_chunk()
            .ok_or(DecodeError::Malformed)?;
        self.bytes = rest;
        Ok(BrokerId(u32::from_be_bytes(*id)))
    }

    fn moment(&mut self) -> Result<Time, DecodeError> {
        let age = self.number()?.saturating_mul(STEP_US);
        let now = self.now.as_micros();
        Ok(Time::from_micros(now.saturating_sub(age)))
    }

    fn text(&mut self) -> Result<String, DecodeError> {
        let len = self.count(WORD_MAX)?;
        let (word, rest) = self
            .bytes
            .split_at_checked(len)
            .ok_or(DecodeError::Malformed)?;
        self.bytes = rest;
        let word = core::str::from_utf8(word).map_err(|_| DecodeError::Malformed)?;
        match word.chars().any(char::is_control) {
            true => Err(DecodeError::Malformed),
            false => Ok(word.to_owned()),
        }
    }

    fn figures<const N: usize>(&mut self) -> Result<[Option<u64>; N], DecodeError> {
        let mask = self.number()?;
        let mut values = [None; N];
        for bit in (0..u64::BITS).filter(|bit| mask >> bit & 1 == 1) {
            // A later version's figure is read over.
            let value = self.number()?;
            if let Some(place) = values.get_mut(bit as usize) {
                *place = Some(value);
            }
        }
        Ok(values)
    }

    fn beat(&mut self) -> Result<Vec<(BrokerId, Time)>, DecodeError> {
        let count = self.count(BEAT_MAX)?;
        (0..count)
            .map(|_| Ok((self.broker()?, self.moment()?)))
            .collect()
    }

    fn digest(&mut self) -> Result<Digest, DecodeError> {
        let (broker, incarnation) = (self.broker()?, self.byte()?);
        let (number, at) = (self.number()?, self.moment()?);
        let parts = self.byte()?;
        let figures = match parts & FIGURES {
            0 => None,
            _ => Some(self.figures::<BROKER>()?),
        };
        let names = match parts & NAMES {
            0 => None,
            _ => Some(Names {
                name: self.text()?,
                version: self.text()?,
                region: self.text()?,
            }),
        };
        let count = self.count(LINKS_MAX)?;
        let links = (0..count).map(|_| self.link());
        Ok(Digest {
            broker,
            incarnation,
            number,
            at,
            figures,
            names,
            links: links.collect::<Result<_, _>>()?,
        })
    }

    fn link(&mut self) -> Result<Link, DecodeError> {
        let parts = self.byte()?;
        let peer = match parts & PEER {
            0 => None,
            _ => Some(self.broker()?),
        };
        let way = match parts & WAY {
            0 => Default::default(),
            _ => [self.text()?, self.text()?],
        };
        Ok(Link {
            peer,
            way,
            at: self.moment()?,
            figures: self.figures::<LINK>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn link(peer: Option<u32>, value: u64) -> Link {
        Link {
            peer: peer.map(BrokerId),
            way: match peer {
                Some(_) => Default::default(),
                None => ["192.0.2.1:4600".to_owned(), "udp".to_owned()],
            },
            at: Time::from_millis(9_500),
            figures: [Some(value); LINK],
        }
    }

    fn whole(value: u64) -> Digest {
        let mut figures = [Some(value); BROKER];
        figures[3] = None;
        Digest {
            incarnation: 255,
            number: value,
            figures: Some(figures),
            names: Some(Names {
                name: "oslo-\u{e9}".to_owned(),
                ..Names::default()
            }),
            links: vec![link(Some(9), value), link(None, 0)],
            ..Digest::new(BrokerId(0xff00_0001), Time::from_millis(9_000))
        }
    }

    fn event(rows: &[Row]) -> Vec<u8> {
        let merged = Merged {
            brokers: 1_000,
            rows: rows.to_vec(),
        };
        merged.encode(Time::from_millis(10_000))
    }

    #[test]
    fn rows_come_back_as_they_were_with_their_ages_by_the_readers_clock() {
        let alive = vec![(BrokerId(7), Time::from_millis(9_990))];
        let rows = [Row::Digest(whole(u64::MAX)), Row::Beat(alive)];
        let read = decode(Time::from_millis(60_000), &event(&rows)).unwrap();
        assert_eq!(read.brokers, 1_000);
        let [Row::Digest(digest), Row::Beat(alive)] = read.rows.as_slice() else {
            panic!("{:?}", read.rows)
        };
        assert_eq!(digest.at, Time::from_millis(59_000));
        assert_eq!(digest.links[0].at, Time::from_millis(59_500));
        assert_eq!(alive, &[(BrokerId(7), Time::from_millis(59_990))]);
        assert_eq!(digest.figures, whole(u64::MAX).figures);
        assert_eq!(digest.names, whole(0).names);
        assert_eq!(digest.links[1].way, link(None, 0).way);
    }

    #[test]
    fn figures_of_later_versions_are_read_over() {
        let mut bytes = Vec::new();
        figures(&mut bytes, &[Some(5), None, Some(300), Some(7)]);
        bytes.push(42);
        let (now, bytes) = (Time::ZERO, bytes.as_slice());
        let mut from = Reader { now, bytes };
        assert_eq!(from.figures::<2>(), Ok([Some(5), None]));
        assert_eq!(from.bytes, [42]);
    }

    #[test]
    fn what_is_beyond_a_bound_or_cut_off_is_refused() {
        let whole = event(&[Row::Digest(whole(300))]);
        for len in 4..whole.len() {
            assert!(decode(Time::ZERO, &whole[..len]).is_err(), "{len}");
        }
        let many = vec![(BrokerId(1), Time::ZERO); BEAT_MAX + 1];
        let beat = event(&[Row::Beat(many)]);
        assert_eq!(decode(Time::ZERO, &beat), Err(DecodeError::Unbounded));
        assert_eq!(decode(Time::ZERO, &[9]), Err(DecodeError::Version(9)));
        let endless = [VERSION, 0, DIGEST].into_iter().chain([0xff; 40]);
        let endless: Vec<u8> = endless.collect();
        assert_eq!(decode(Time::ZERO, &endless), Err(DecodeError::Malformed));
    }

    proptest! {
        #[test]
        fn no_bytes_do_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() {
                *first = VERSION;
            }
            if let Ok(read) = decode(Time::from_millis(5), &bytes) {
                let written = read.rows.iter().map(|row| {
                    let mut out = Vec::new();
                    encode(&mut out, Time::from_millis(5), row);
                    out.len()
                });
                prop_assert!(written.sum::<usize>() <= 2 * bytes.len());
            }
        }

        #[test]
        fn numbers_come_back(value in any::<u64>()) {
            let mut bytes = Vec::new();
            number(&mut bytes, value);
            let mut from = Reader { now: Time::ZERO, bytes: &bytes };
            prop_assert_eq!(from.number(), Ok(value));
        }
    }
}
