//! What nodes of one archive keep alike: the roster and the films' indexes. The newest roster
//! counts, by how often it was written.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::roster::{OWN, Roster, weight};
use super::site::Site;
use super::{Film, FilmError, Films, file};
use crate::blocks::{BlockDisk, BlockError, LocalDisk, Store};
use crate::nodes::{KEY, Key, Link, Node, Own, Reply, Request};

/// Who moves blocks has to say so again before.
const LEASE: Duration = Duration::from_secs(10);
const LEASE_FILE: &str = "mover.lease";

/// Who may move blocks, and until when.
#[derive(Serialize, Deserialize)]
struct Lease {
    node: u32,
    /// Milliseconds since 1970.
    until: u64,
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

impl Films {
    /// Which node this is, if the archive has nodes.
    #[must_use]
    pub fn this(&self) -> Option<Arc<Own>> {
        let mut own = self.this.lock();
        let own = own.as_deref_mut().ok()?;
        if own.is_none() {
            let read = Own::read(&self.archive);
            let read = read.inspect_err(|error| tracing::error!(%error, "node.json or nodes.key"));
            *own = read.ok().flatten().map(Arc::new);
        }
        own.clone()
    }

    /// The number of this node; 0 if the archive has none.
    #[must_use]
    pub fn own_node(&self) -> u32 {
        self.this().map_or(0, |own| own.node)
    }

    /// The other nodes of a roster, and the ways there.
    #[must_use]
    pub fn others(&self, roster: &Roster) -> Vec<(Node, Arc<Link>)> {
        let Some(own) = self.this() else {
            return Vec::new();
        };
        let others = roster.nodes.iter().filter(|node| node.id != own.node);
        others.map(|node| (node.clone(), own.link(node))).collect()
    }

    /// Makes this folder the first node of an archive, with a key if there is none; where the key
    /// is.
    ///
    /// # Errors
    /// It is a node already, or its files cannot be written.
    pub fn become_node(&self, address: &str) -> Result<Node, FilmError> {
        self.found()?;
        let _lock = self.own()?;
        let mut roster = self.roster()?;
        if self.this().is_some() || !roster.nodes.is_empty() {
            return Err(FilmError::Node("this archive has nodes already".to_owned()));
        }
        let node = Node {
            id: 1,
            address: address.to_owned(),
            leaving: false,
        };
        let path = self.archive.join(KEY);
        let failed = || FilmError::of(self.archive.display());
        let key = match path.exists() {
            true => Key::read(&path),
            false => Key::make(&path),
        };
        let own = Own::new(node.id, key.map_err(FilmError::of(path.display()))?);
        for disk in &mut roster.disks {
            disk.host = node.id;
        }
        roster.nodes.push(node.clone());
        roster.write(&self.archive).map_err(failed())?;
        own.keep(&self.archive).map_err(failed())?;
        Ok(node)
    }

    /// Makes this folder a node of the archive that the node at `through` belongs to; `key` is that
    /// archive's.
    ///
    /// # Errors
    /// There are films here already, or the node is not reached, or has another key.
    pub fn join(&self, address: &str, (through, key): (&str, &Path)) -> Result<Node, FilmError> {
        crate::medium::make(&self.archive).map_err(FilmError::of(self.archive.display()))?;
        let _lock = self.own()?;
        if self.roster()?.is_kept() || self.this().is_some() {
            let why = "this folder has disks and films of its own: join with an empty one";
            return Err(FilmError::Node(why.to_owned()));
        }
        let failed = || FilmError::of(self.archive.display());
        let kept = self.archive.join(KEY);
        let secret = Key::read(key).map_err(FilmError::of(key.display()))?;
        LocalDisk::open(&self.archive.join(OWN)).map_err(failed())?;
        let disk = Site::of(&self.archive, OWN).map_err(failed())?;
        let gib = disk.room().map_or(1, |(all, _)| all >> 30);
        let request = Request::Join {
            address: address.to_owned(),
            weight: weight(gib),
        };
        let link = Link::new(through, secret.clone());
        let asked = link.ask(&request, &[]).map_err(FilmError::of(through))?;
        let (Reply::Joined { node, disk: id }, text) = asked else {
            return Err(FilmError::Node(format!("{through}: no answer to that")));
        };
        let roster = Roster::parse(&text).map_err(FilmError::of(through))?;
        roster.mark(&disk, id).map_err(failed())?;
        if fs::canonicalize(key).ok() != fs::canonicalize(&kept).ok() {
            file::replace_secret(&kept, key).map_err(failed())?;
        }
        roster.keep(&self.archive).map_err(failed())?;
        Own::new(node, secret)
            .keep(&self.archive)
            .map_err(failed())?;
        let found = roster.nodes.into_iter().find(|one| one.id == node);
        found.ok_or_else(|| FilmError::Node(format!("{through}: no such node")))
    }

    /// Lets a folder elsewhere be a node: its number, that of its disk, and the roster.
    ///
    /// # Errors
    /// The roster cannot be kept, or there are too many disks.
    pub fn let_join(&self, address: &str, weight: u32) -> Result<(u32, u32, Vec<u8>), FilmError> {
        let _lock = self.own()?;
        let before = self.newest_roster()?;
        if before.nodes.iter().any(|node| node.address == address) {
            return Err(FilmError::Node(format!("{address} is a node already")));
        }
        let mut roster = before;
        let id = roster.next_node();
        roster.nodes.push(Node {
            id,
            address: address.to_owned(),
            leaving: false,
        });
        let disk = roster.add((OWN.to_owned(), id), 0, weight)?;
        self.publish(&roster)?;
        let text = self.roster_text()?;
        Ok((id, disk, text))
    }

    /// Lets a node go, be it there or dead: its disks are emptied, or made again elsewhere.
    ///
    /// # Errors
    /// There is no such node, or too few disks without it.
    pub fn remove_node(&self, wanted: &str) -> Result<Node, FilmError> {
        let _lock = self.own()?;
        let mut roster = self.newest_roster()?;
        let number = wanted.parse::<u32>().ok();
        let is_wanted = |node: &&mut Node| Some(node.id) == number || node.address == wanted;
        let node = roster.nodes.iter_mut().find(is_wanted);
        let node = node.ok_or_else(|| FilmError::Node(format!("there is no node {wanted:?}")))?;
        node.leaving = true;
        let node = node.clone();
        for disk in roster.disks.iter_mut().filter(|disk| disk.host == node.id) {
            disk.leaving = true;
        }
        roster.changes += 1;
        if roster.staying() == 0 {
            return Err(FilmError::LastDisk);
        }
        let widest = self.list()?.into_iter();
        let widest = widest.map(|film| film.object.layout.width()).max();
        if roster.staying() < widest.unwrap_or(1) {
            return Err(BlockError::TooFewDisks.into());
        }
        self.publish(&roster)?;
        Ok(node)
    }

    /// Keeps a roster that was changed, and tells the others; those that are away hear of it when
    /// they are back.
    pub(super) fn publish(&self, roster: &Roster) -> Result<(), FilmError> {
        let kept = roster.write(&self.archive);
        kept.map_err(FilmError::of(self.archive.display()))?;
        let text = self.roster_text()?;
        for (node, link) in self.others(roster) {
            if let Err(error) = link.ask(&Request::Renew, &text) {
                tracing::info!(node = node.id, %error, "it hears of the disks later");
            }
        }
        Ok(())
    }

    /// The roster, after a look at those of the others.
    pub(super) fn newest_roster(&self) -> Result<Roster, FilmError> {
        let roster = self.roster()?;
        for (node, link) in self.others(&roster) {
            match link.data(&Request::Roster) {
                Ok(text) => drop(self.take_roster(&text)?),
                Err(error) => tracing::debug!(node = node.id, %error, "away"),
            }
        }
        self.roster()
    }

    /// The bytes of the roster.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn roster_text(&self) -> Result<Vec<u8>, FilmError> {
        let roster = self.roster()?;
        let text = serde_json::to_vec(&roster).map_err(io::Error::from);
        text.map_err(FilmError::of(self.archive.display()))
    }

    /// Takes another node's roster if it is newer; whether it was.
    ///
    /// # Errors
    /// It is none, or of another archive, or cannot be kept.
    pub fn take_roster(&self, text: &[u8]) -> Result<bool, FilmError> {
        let failed = || FilmError::of(self.archive.display());
        let theirs = Roster::parse(text).map_err(failed())?;
        let ours = self.roster()?;
        if !theirs.is_of(&ours) {
            return Err(FilmError::Node("a node of another archive".to_owned()));
        }
        if theirs.edition == ours.edition && theirs != ours {
            tracing::warn!("disks were changed at two nodes at once: one of the changes is lost");
        }
        // Of two that were written at once all take the same.
        let is_newer = (theirs.edition, text) > (ours.edition, &self.roster_text()?[..]);
        if is_newer {
            theirs.keep(&self.archive).map_err(failed())?;
        }
        Ok(is_newer)
    }

    /// Numbers of all films.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn numbers(&self) -> Result<Vec<u64>, FilmError> {
        let folder = self.folder();
        file::list(&folder).map_err(FilmError::of(folder.display()))
    }

    /// The bytes of a film's index; `None` if it is not known here.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn index_text(&self, film: u64) -> Result<Option<Vec<u8>>, FilmError> {
        let path = file::path(&self.folder(), film);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            text => text.map(Some).map_err(FilmError::of(path.display())),
        }
    }

    /// Keeps the index of a film that another node knows.
    ///
    /// # Errors
    /// It is damaged, or cannot be kept.
    pub fn learn_index(&self, id: u64, text: &[u8]) -> Result<(), FilmError> {
        let film = file::decode(text).filter(|film| film.object.id == id);
        let film = film.ok_or_else(|| FilmError::Node("the index is damaged".to_owned()))?;
        self.keep_here(&film)
    }

    /// Keeps a film's index here and at all nodes that are there.
    pub(super) fn keep(&self, film: &Film) -> Result<(), FilmError> {
        self.keep_here(film)?;
        let text = file::encode(film);
        let request = Request::Learn {
            film: film.object.id,
        };
        for (node, link) in self.others(&self.roster()?) {
            if let Err(error) = link.ask(&request, &text) {
                tracing::info!(node = node.id, %error, "it hears of the film later");
            }
        }
        Ok(())
    }

    /// Takes what other nodes know and this one does not; whether something was new. To be called
    /// every few seconds.
    ///
    /// # Errors
    /// The archive's folder cannot be read or written.
    pub fn catch_up(&self) -> Result<bool, FilmError> {
        let roster = self.roster()?;
        let own = self.numbers()?;
        let mut is_new = false;
        for (_, link) in self.others(&roster) {
            let Ok((Reply::Standing(theirs), _)) = link.ask(&Request::Standing { from: 0 }, &[])
            else {
                continue;
            };
            if theirs.edition != roster.edition
                && let Ok(text) = link.data(&Request::Roster)
            {
                is_new |= self.take_roster(&text)?;
            }
            let Ok(numbers) = link.data(&Request::Films) else {
                continue;
            };
            let numbers = numbers.chunks_exact(8);
            let numbers = numbers.filter_map(|bytes| bytes.first_chunk().copied());
            for film in numbers.map(u64::from_be_bytes) {
                if own.binary_search(&film).is_err()
                    && let Ok(text) = link.data(&Request::Index { film })
                {
                    self.learn_index(film, &text)?;
                    is_new = true;
                }
            }
        }
        Ok(is_new)
    }

    /// Whether it is this node that moves blocks by itself: that which has the lowest number of
    /// those that are there.
    #[must_use]
    pub fn leads_moves(&self, roster: &Roster) -> bool {
        let own = self.own_node();
        let others = self.others(roster);
        let mut lower = others.iter().filter(|(node, _)| node.id < own);
        let ask = Request::Standing { from: 0 };
        !lower.any(|(_, link)| link.ask(&ask, &[]).is_ok())
    }

    /// Lets a node move blocks for ten seconds; false if another does.
    ///
    /// # Errors
    /// The archive's folder cannot be written.
    pub fn lease(&self, node: u32) -> Result<bool, FilmError> {
        if self.is_leased_to_another(node) {
            return Ok(false);
        }
        // Somebody moves here.
        let Ok(_lock) = self.own_moves_here() else {
            return Ok(false);
        };
        let lease = Lease {
            node,
            until: now_ms() + LEASE.as_millis() as u64,
        };
        let path = self.archive.join(LEASE_FILE);
        let text = serde_json::to_vec(&lease).map_err(io::Error::from);
        let kept = text.and_then(|text| file::replace(&path, &text));
        kept.map_err(FilmError::of(path.display()))?;
        Ok(true)
    }

    /// Whether another node than this moves blocks.
    pub(super) fn is_leased_to_another(&self, node: u32) -> bool {
        let text = fs::read(self.archive.join(LEASE_FILE));
        let lease = text
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        lease.is_some_and(|lease: Lease| lease.node != node && lease.until > now_ms())
    }

    /// Asks the others to leave the moving of blocks to this node for ten seconds more.
    ///
    /// # Errors
    /// [`FilmError::Busy`]: somebody moves.
    pub(super) fn claim_moves(&self, roster: &Roster) -> Result<(), FilmError> {
        let node = self.own_node();
        for (_, link) in self.others(roster) {
            if let Ok((Reply::Is { so: false }, _)) = link.ask(&Request::Lease { node }, &[]) {
                return Err(FilmError::Busy);
            }
        }
        Ok(())
    }

    /// Whether films are being put here.
    ///
    /// # Errors
    /// The archive's folder cannot be written.
    pub fn is_putting(&self) -> Result<bool, FilmError> {
        Ok(self.try_own()?.is_none())
    }

    /// Whether films may be on their way to the disks from other nodes.
    pub(super) fn others_put(&self, roster: &Roster) -> bool {
        let others = self.others(roster);
        let mut others = others.iter();
        others.any(|(_, link)| {
            let asked = link.ask(&Request::Putting, &[]);
            // One that is away may put to those that it reaches.
            !matches!(asked, Ok((Reply::Is { so: false }, _)))
        })
    }

    /// A disk of this node.
    ///
    /// # Errors
    /// It is not there.
    pub fn own_disk(&self, id: u32) -> io::Result<Box<dyn BlockDisk>> {
        let roster = self.roster().map_err(io::Error::other)?;
        let own = self.own_node();
        let mut disks = roster.disks.iter();
        let entry = disks.find(|disk| disk.id == id && disk.host == own);
        let missing = || io::Error::other(format!("disk {id} is not of this node"));
        self.disk(&roster, entry.ok_or_else(missing)?)
    }

    /// The disks and nodes as they are now.
    ///
    /// # Errors
    /// The roster cannot be read.
    pub fn view(&self) -> Result<View, FilmError> {
        let (roster, store) = self.present()?;
        Ok(View { roster, store })
    }
}

/// Disks and nodes at one moment: all nodes that know the same change share films out alike.
#[derive(Clone, Debug)]
pub struct View {
    roster: Roster,
    store: Arc<Store>,
}

impl View {
    /// How often disks were changed.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.roster.changes
    }

    /// The nodes.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.roster.nodes
    }

    /// The disk on which a block belongs; of several copies the first.
    #[must_use]
    pub fn disk(&self, film: &Film, block: u64) -> u32 {
        let disks = self.store.disks_of(&film.object, block);
        disks.first().map_or(0, |disk| disk.0)
    }

    /// The node that sends a block while those of `alive` are there: where it lies, or else one
    /// that is drawn, alike by all.
    #[must_use]
    pub fn sender(&self, film: &Film, block: u64, alive: &[u32]) -> u32 {
        let disks = self.store.disks_of(&film.object, block);
        let mut hosts = disks.iter().filter_map(|disk| self.roster.host(disk.0));
        hosts.find(|host| alive.contains(host)).unwrap_or_else(|| {
            let (stripe, _) = film.object.layout.piece(block);
            let drawn = sangam_model::Random::new(film.object.id ^ stripe).bits();
            let count = alive.len().max(1) as u64;
            alive.get((drawn % count) as usize).copied().unwrap_or(0)
        })
    }
}
