//! The disks of an archive, in a small file that is replaced in one step.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use sangam_placement::{Disk, DiskId, Disks, DisksError, Layout, NodeId, Straw2, WEIGHT_MAX};
use serde::{Deserialize, Serialize};

use super::file::replace;

/// The file of the archive, and that by which a disk is known to be there.
const FILE: &str = "disks.json";
const MARK: &str = "disk.json";
/// Where blocks are while nobody named a disk, within the archive.
const OWN: &str = "blocks";
/// Blocks of which one may be lost, where there are disks enough.
const PARITY: u8 = 3;
const VERSION: u32 = 1;

/// What is known of all disks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    version: u32,
    /// The archive, by which its disks know it: 16 hexadecimal digits.
    archive: String,
    /// How often disks were changed.
    pub changes: u64,
    /// After which of these changes everything was brought to where it belongs.
    pub settled: u64,
    /// Of the next disk: numbers are never given out again.
    next: u32,
    /// The disks.
    pub disks: Vec<Entry>,
}

/// A disk of the roster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub id: u32,
    /// Its folder, within the archive's if it is relative.
    pub place: String,
    /// What fails with it: disks of one file system have the same number.
    pub node: u32,
    /// Its share against the others': GiB, unless somebody said otherwise.
    pub weight: u32,
    /// What lies there is to go to the others.
    #[serde(default)]
    pub leaving: bool,
}

/// How a disk knows whose it is: a folder without it is none, such as where nothing is mounted.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    archive: String,
    disk: u32,
}

impl Roster {
    /// The roster of an archive's folder; while nobody named a disk, a folder in it.
    ///
    /// # Errors
    /// The file cannot be read, or is none.
    pub fn read(folder: &Path) -> io::Result<Self> {
        let text = match fs::read(folder.join(FILE)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::fresh()),
            text => text?,
        };
        let roster: Self = serde_json::from_slice(&text)?;
        let placed = roster.placement();
        placed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))?;
        match roster.version {
            VERSION => Ok(roster),
            other => Err(io::Error::new(
                ErrorKind::InvalidData,
                format!("{FILE} is of version {other}, which a newer Sangam wrote"),
            )),
        }
    }

    fn fresh() -> Self {
        Self {
            version: VERSION,
            archive: String::new(),
            changes: 0,
            settled: 0,
            next: 1,
            disks: vec![Entry {
                id: 0,
                place: OWN.to_owned(),
                node: 0,
                weight: 1,
                leaving: false,
            }],
        }
    }

    /// Keeps it.
    ///
    /// # Errors
    /// Of the disk.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        replace(&folder.join(FILE), &text)
    }

    /// Whether it was kept: before the first film, or disk, there is nothing to be found.
    pub(super) const fn is_kept(&self) -> bool {
        !self.archive.is_empty()
    }

    /// Gives the archive its number and makes its own folder a disk.
    pub(super) fn found(&mut self, (archive, weight): (u64, u32)) {
        self.archive = format!("{archive:016x}");
        for disk in &mut self.disks {
            disk.weight = weight;
        }
    }

    /// Adds a disk that is at `place`; its number.
    ///
    /// # Errors
    /// [`DisksError`]: the weight, or too many.
    pub(super) fn add(&mut self, place: String, node: u32, weight: u32) -> Result<u32, DisksError> {
        let id = self.next;
        let mut next = self.clone();
        next.disks.push(Entry {
            id,
            place,
            node,
            weight,
            leaving: false,
        });
        next.next += 1;
        next.changes += 1;
        next.placement()?;
        *self = next;
        Ok(id)
    }

    /// The disk of a number or a place.
    #[must_use]
    pub fn find(&self, wanted: &str) -> Option<&Entry> {
        let number = wanted.parse::<u32>().ok();
        let mut disks = self.disks.iter();
        disks.find(|disk| Some(disk.id) == number || disk.place == wanted)
    }

    /// A node that no disk has.
    pub(super) fn free_node(&self) -> u32 {
        let nodes = self.disks.iter().map(|disk| disk.node + 1);
        nodes.max().unwrap_or(0)
    }

    /// Where blocks belong.
    pub(super) fn placement(&self) -> Result<Straw2, DisksError> {
        let disks = self.disks.iter().filter(|disk| !disk.leaving);
        let disks = disks.map(|disk| Disk {
            id: DiskId(disk.id),
            node: NodeId(disk.node),
            weight: disk.weight,
        });
        Disks::new(disks).map(Straw2::new)
    }

    /// Disks on which blocks belong.
    #[must_use]
    pub fn staying(&self) -> usize {
        self.disks.iter().filter(|disk| !disk.leaving).count()
    }

    /// What a film gets if nobody says otherwise: it outlives one disk where there are two.
    #[must_use]
    pub fn layout(&self) -> Layout {
        match self.staying() {
            0 | 1 => Layout::Copies(1),
            disks if disks <= usize::from(PARITY) => Layout::Copies(2),
            _ => Layout::Parity(PARITY),
        }
    }

    /// Whether everything is where it belongs.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.settled == self.changes
    }

    /// Marks a folder as this archive's disk.
    pub(super) fn mark(&self, folder: &Path, disk: u32) -> io::Result<()> {
        let archive = self.archive.clone();
        let mark = serde_json::to_vec(&Mark { archive, disk })?;
        replace(&folder.join(MARK), &mark)
    }

    /// Whether a folder is this disk; `None` if it is nobody's.
    pub(super) fn is_marked(&self, folder: &Path, disk: u32) -> io::Result<Option<bool>> {
        let text = match fs::read(folder.join(MARK)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text?,
        };
        let mark = serde_json::from_slice::<Mark>(&text);
        let is_own = |mark: Mark| mark.archive == self.archive && mark.disk == disk;
        Ok(Some(mark.is_ok_and(is_own)))
    }
}

impl Entry {
    /// Where it is.
    pub(super) fn folder(&self, archive: &Path) -> PathBuf {
        archive.join(&self.place)
    }
}

/// A weight by the size of a disk.
pub(super) fn weight(gib: u64) -> u32 {
    u32::try_from(gib).map_or(WEIGHT_MAX, |gib| gib.clamp(1, WEIGHT_MAX))
}
