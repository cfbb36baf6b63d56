//! What is known of a film, in a file beside the disks: `docs/spec/archive.md` has the bytes. It
//! can be made again from the film's blocks.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::index::{Index, Point};
use crate::blocks::{Object, code, layout};

const MAGIC: [u8; 12] = *b"SANGAM FLM\x00\x01";
/// Bytes of what can be read without the rest.
const HEAD_LEN: usize = 512;
/// Where the head's numbers begin, and the name behind them.
const NUMBERS: usize = 16;
const NAME: usize = NUMBERS + 9 * 8;
/// Points and starts of one film: 116 hours.
pub(super) const ENTRIES_MAX: u64 = 1 << 22;
/// Ending of the files.
const SUFFIX: &str = "film";

/// A film as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its blocks.
    pub object: Object,
    /// How long it is.
    pub length: Duration,
    /// Places at which playing can begin.
    pub starts: u64,
}

/// A film that can be played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Film {
    /// Its blocks.
    pub object: Object,
    /// Its time.
    pub index: Index,
}

impl Film {
    /// What lists show of it.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            object: self.object.clone(),
            length: self.index.length(),
            starts: self.index.starts() as u64,
        }
    }
}

pub(super) fn path(folder: &Path, id: u64) -> PathBuf {
    folder.join(format!("{id:016x}.{SUFFIX}"))
}

/// Numbers of all films of a folder.
pub(super) fn list(folder: &Path) -> io::Result<Vec<u64>> {
    numbered(folder, SUFFIX)
}

/// Numbers that are names of files with this ending.
pub(super) fn numbered(folder: &Path, suffix: &str) -> io::Result<Vec<u64>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == suffix) {
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            found.extend(stem.and_then(|stem| u64::from_str_radix(stem, 16).ok()));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Keeps a film, whole or not at all.
pub(super) fn write(folder: &Path, film: &Film) -> io::Result<()> {
    replace(&path(folder, film.object.id), &encode(film))
}

/// Puts bytes in the place of a file, safely and in one step.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = File::create(&fresh)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&fresh, path)?;
    let folder = path.parent().ok_or(ErrorKind::InvalidInput)?;
    File::open(folder)?.sync_all()
}

/// Copies a file that nobody else may read.
pub(super) fn replace_secret(path: &Path, from: &Path) -> io::Result<()> {
    let bytes = fs::read(from)?;
    let fresh = path.with_extension("new");
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&fresh)?;
    file.write_all(&bytes)?;
    file.sync_data()?;
    fs::rename(&fresh, path)
}

/// What lists show; [`ErrorKind::InvalidData`] if it is damaged.
pub(super) fn summary(path: &Path) -> io::Result<Summary> {
    let mut head = [0; HEAD_LEN];
    File::open(path)?.read_exact(&mut head)?;
    let head = Head::decode(&head).ok_or(ErrorKind::InvalidData)?;
    Ok(head.summary())
}

/// All of a film; [`ErrorKind::InvalidData`] if it is damaged.
pub(super) fn read(path: &Path) -> io::Result<Film> {
    let bytes = fs::read(path)?;
    decode(&bytes).ok_or_else(|| ErrorKind::InvalidData.into())
}

/// The numbers of a head.
struct Head {
    object: Object,
    packets: u64,
    broken: u64,
    length: u64,
    points: u64,
    starts: u64,
    sum: u64,
}

impl Head {
    fn encode(&self) -> Vec<u8> {
        let (kind, width) = code(self.object.layout);
        let name = self.object.name.as_bytes();
        let mut out = MAGIC.to_vec();
        // `Store::put` refuses longer names.
        out.extend([kind, width, name.len() as u8, 0]);
        for number in [
            self.object.id,
            self.object.bytes,
            u64::from(self.object.block_len),
            self.packets,
            self.broken,
            self.length,
            self.points,
            self.starts,
            self.sum,
        ] {
            out.extend(number.to_be_bytes());
        }
        out.extend(name);
        out.resize(HEAD_LEN - 4, 0);
        let sum = crc32c::crc32c(&out);
        out.extend(sum.to_be_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, sum) = bytes.get(..HEAD_LEN)?.split_last_chunk::<4>()?;
        if crc32c::crc32c(head) != u32::from_be_bytes(*sum) || !head.starts_with(&MAGIC) {
            return None;
        }
        let number = |place: usize| {
            let bytes = head.get(NUMBERS + place * 8..)?.first_chunk()?;
            Some(u64::from_be_bytes(*bytes))
        };
        let name = head.get(NAME..)?.get(..usize::from(head[14]))?;
        let object = Object {
            id: number(0)?,
            name: String::from_utf8(name.to_vec()).ok()?,
            bytes: number(1)?,
            block_len: u32::try_from(number(2)?).ok()?,
            layout: layout((head[12], head[13]))?,
        };
        Some(Self {
            object,
            packets: number(3)?,
            broken: number(4)?,
            length: number(5)?,
            points: number(6)?,
            starts: number(7)?,
            sum: number(8)?,
        })
    }

    fn summary(self) -> Summary {
        Summary {
            object: self.object,
            length: Duration::from_nanos(self.length),
            starts: self.starts,
        }
    }
}

/// The bytes of a film's file.
pub(super) fn encode(film: &Film) -> Vec<u8> {
    let Film { object, index } = film;
    let points = index.points.iter();
    let points = points.flat_map(|point| [point.packet, point.ticks]);
    let body: Vec<u8> = points
        .chain(index.starts.iter().copied())
        .flat_map(u64::to_be_bytes)
        .collect();
    let head = Head {
        object: object.clone(),
        packets: index.packets,
        broken: index.broken,
        length: u64::try_from(index.length().as_nanos()).unwrap_or(u64::MAX),
        points: index.points.len() as u64,
        starts: index.starts.len() as u64,
        sum: crc32c::crc32c(&body).into(),
    };
    [head.encode(), body].concat()
}

/// A film of its file's bytes; `None` if they are damaged.
pub(super) fn decode(bytes: &[u8]) -> Option<Film> {
    let head = Head::decode(bytes)?;
    let body = bytes.get(HEAD_LEN..)?;
    let fits = head.points <= ENTRIES_MAX
        && head.starts <= ENTRIES_MAX
        && body.len() as u64 == head.points * 16 + head.starts * 8
        && u64::from(crc32c::crc32c(body)) == head.sum;
    if !fits {
        return None;
    }
    let (points, starts) = body.split_at_checked(head.points as usize * 16)?;
    let number = |bytes: &[u8]| bytes.first_chunk().copied().map(u64::from_be_bytes);
    let points = points.chunks_exact(16).filter_map(|pair| {
        Some(Point {
            packet: number(pair)?,
            ticks: number(&pair[8..])?,
        })
    });
    let index = Index {
        packets: head.packets,
        broken: head.broken,
        points: points.collect(),
        starts: starts.chunks_exact(8).filter_map(number).collect(),
    };
    let pairs = index.points.windows(2);
    let is_ordered = pairs.clone().all(|pair| {
        let [a, b] = pair else { return false };
        a.packet < b.packet && a.ticks <= b.ticks
    });
    let is_usable = is_ordered && index.points.len() > 1;
    is_usable.then_some(Film {
        object: head.object,
        index,
    })
}
