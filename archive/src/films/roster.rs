//! The disks of an archive, in a small file that is replaced in one step.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use sangam_placement::{Disk, DiskId, Disks, DisksError, Layout, NodeId, Straw2, WEIGHT_MAX};
use serde::{Deserialize, Serialize};

use super::file::replace;
use super::site::Site;
use crate::bucket::SCHEME;
use crate::nodes::Node;

/// The file of the archive.
const FILE: &str = "disks.json";
/// Where blocks are while nobody named a disk, within the archive.
pub(super) const OWN: &str = "blocks";
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
    /// How often it was written: of several nodes' rosters the one counts that was most often.
    #[serde(default)]
    pub edition: u64,
    /// The nodes, if the archive has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<Node>,
    /// Of the next node, from 1.
    #[serde(default)]
    next_node: u32,
    /// The disks.
    pub disks: Vec<Entry>,
}

/// A disk of the roster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub id: u32,
    /// Its folder, within the archive's if it is relative, or its bucket (`s3://...`).
    pub place: String,
    /// What fails with it: disks of one file system have the same number.
    pub node: u32,
    /// The archive's node that has it; 0 if the archive has no nodes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub host: u32,
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

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
const fn is_zero(number: &u32) -> bool {
    *number == 0
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
        Self::parse(&text)
    }

    /// A roster in bytes.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn parse(text: &[u8]) -> io::Result<Self> {
        let roster: Self = serde_json::from_slice(text)?;
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
            edition: 0,
            nodes: Vec::new(),
            next_node: 0,
            disks: vec![Entry {
                id: 0,
                place: OWN.to_owned(),
                node: 0,
                host: 0,
                weight: 1,
                leaving: false,
            }],
        }
    }

    /// Keeps it as one that was changed.
    ///
    /// # Errors
    /// Of the disk.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        let mut changed = self.clone();
        changed.edition += 1;
        changed.keep(folder)
    }

    /// Keeps it as it is.
    ///
    /// # Errors
    /// Of the disk.
    pub(super) fn keep(&self, folder: &Path) -> io::Result<()> {
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

    /// Whether it is of the same archive as another.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        self.is_kept() && self.archive == other.archive
    }

    /// The number of the next node.
    pub(super) fn next_node(&mut self) -> u32 {
        let known = self.nodes.iter().map(|node| node.id).max().unwrap_or(0);
        self.next_node = self.next_node.max(known) + 1;
        self.next_node
    }

    /// The node that has a disk.
    #[must_use]
    pub fn host(&self, disk: u32) -> Option<u32> {
        let found = self.disks.iter().find(|entry| entry.id == disk);
        found.map(|entry| entry.host)
    }

    /// Adds a disk that is at `place` of a host; its number.
    ///
    /// # Errors
    /// [`DisksError`]: the weight, or too many.
    pub(super) fn add(
        &mut self,
        (place, host): (String, u32),
        node: u32,
        weight: u32,
    ) -> Result<u32, DisksError> {
        let id = self.next;
        let mut next = self.clone();
        next.disks.push(Entry {
            id,
            place,
            node,
            host,
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
        // With its node all of a node's disks fail, whatever file systems they are.
        let has_nodes = self.nodes.len() > 1;
        let disks = disks.map(|disk| Disk {
            id: DiskId(disk.id),
            node: NodeId(if has_nodes { disk.host } else { disk.node }),
            weight: disk.weight,
        });
        Disks::new(disks).map(Straw2::new)
    }

    /// Disks on which blocks belong.
    #[must_use]
    pub fn staying(&self) -> usize {
        self.disks.iter().filter(|disk| !disk.leaving).count()
    }

    /// What a film gets if nobody says otherwise: it outlives one disk where there are two, and one
    /// node where there are two.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let nodes = self.nodes.iter().filter(|node| !node.leaving).count();
        let parts = if nodes > 1 { nodes } else { self.staying() };
        match parts {
            0 | 1 => Layout::Copies(1),
            parts if parts <= usize::from(PARITY) => Layout::Copies(2),
            _ => Layout::Parity(PARITY),
        }
    }

    /// Whether a disk is reached over a network.
    #[must_use]
    pub fn is_far(&self) -> bool {
        self.disks.iter().any(Entry::is_far)
    }

    /// Whether everything is where it belongs.
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.settled == self.changes
    }

    /// Marks a place as this archive's disk.
    pub(super) fn mark(&self, site: &Site, disk: u32) -> io::Result<()> {
        let archive = self.archive.clone();
        site.set_mark(&serde_json::to_vec(&Mark { archive, disk })?)
    }

    /// Whether a place is this disk; `None` if it is nobody's.
    pub(super) fn is_marked(&self, site: &Site, disk: u32) -> io::Result<Option<bool>> {
        let Some(text) = site.mark()? else {
            return Ok(None);
        };
        let mark = serde_json::from_slice::<Mark>(&text);
        let is_own = |mark: Mark| mark.archive == self.archive && mark.disk == disk;
        Ok(Some(mark.is_ok_and(is_own)))
    }
}

impl Entry {
    /// Whether it is a store.
    pub(super) fn is_far(&self) -> bool {
        self.place.starts_with(SCHEME)
    }

    /// Where it is.
    pub(super) fn site(&self, archive: &Path) -> io::Result<Site> {
        Site::of(archive, &self.place)
    }
}

/// A weight by the size of a disk.
pub(super) fn weight(gib: u64) -> u32 {
    u32::try_from(gib).map_or(WEIGHT_MAX, |gib| gib.clamp(1, WEIGHT_MAX))
}
