//! Every block looked at, over and over, in the background; and disks that stay away.
//!
//! A round goes from film to film and from stripe to stripe. Where it is stands in a file, so that
//! it goes on there when the process begins again. Looking takes no lock: only what is wrong is
//! mended like by [`Films::scrub`], and if somebody moves blocks then, the stripe is looked at
//! again.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use sangam_placement::{DiskId, Layout};
use serde::{Deserialize, Serialize};

use super::{FilmError, Films, Roster, file};
use crate::blocks::{BlockError, Look, Object, Settled};
use crate::nodes::{Reply, Request};

/// The file with the place of the round.
const FILE: &str = "patrol.json";

/// Where a round is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// Rounds that came to their end.
    pub rounds: u64,
    /// The film that is looked at next, or the one behind it, by their numbers.
    pub film: u64,
    /// The stripe of that film.
    pub stripe: u64,
}

macro_rules! patrolled {
    ($($field:ident, $help:literal;)*) => {
        /// What was seen and done since the process began.
        #[derive(Debug, Default)]
        pub struct Patrolled {
            $($field: AtomicU64,)*
        }

        impl Patrolled {
            /// Of each its name, its name in metrics, its explanation and its value.
            #[must_use]
            pub fn all(&self) -> Vec<(&'static str, &'static str, &'static str, u64)> {
                vec![$((
                    stringify!($field),
                    concat!("sangam_archive_", stringify!($field), "_total"),
                    $help,
                    self.$field.load(Ordering::Relaxed),
                )),*]
            }
        }
    };
}

patrolled! {
    scrub_bytes, "Bytes of films looked at in the background";
    scrub_stripes, "Stripes of films looked at in the background";
    scrub_mended, "Pieces of films made again in the background: damaged, or gone";
    scrub_lost, "Stripes of films found to have lost more than they can";
    scrub_rounds, "Times all films were looked at in the background";
    disks_given_up, "Disks let go of, as they stayed away";
}

impl Films {
    /// What was seen and done by [`Films::patrol`] and [`Films::give_up`].
    #[must_use]
    pub const fn patrolled(&self) -> &Patrolled {
        &self.patrolled
    }

    /// Where the round is; at its begin if nothing is known of it.
    #[must_use]
    pub fn round(&self) -> Round {
        let text = fs::read(self.archive.join(FILE)).ok();
        let round = text.and_then(|text| serde_json::from_slice(&text).ok());
        round.unwrap_or_default()
    }

    /// Looks at the next stripe, and mends it; how many bytes of it lie on disks, and about how
    /// many of all films. Nothing is done where there are no films.
    ///
    /// # Errors
    /// [`FilmError::Busy`] if it is to be mended and somebody moves blocks; a folder cannot be
    /// read or written.
    pub fn patrol(&self) -> Result<(u64, u64), FilmError> {
        let mut round = self.round();
        let films = self.list()?;
        let all = films.iter().map(|film| on_disks(&film.object)).sum();
        let mut next = films.iter().map(|film| &film.object);
        let Some(object) = next.find(|object| object.id >= round.film) else {
            if !films.is_empty() {
                self.patrolled.scrub_rounds.fetch_add(1, Ordering::Relaxed);
                round.rounds += 1;
                (round.film, round.stripe) = (0, 0);
                self.keep_round(&round)?;
            }
            return Ok((0, all));
        };
        if object.id != round.film {
            round.stripe = 0;
        }
        let (roster, store) = self.present()?;
        // A store looks at what it has by itself, and reading it costs money.
        let far = roster.disks.iter().filter(|disk| disk.is_far());
        let far: BTreeSet<_> = far.map(|disk| DiskId(disk.id)).collect();
        let seen = store.look(object, round.stripe, &|disk| !far.contains(&disk))?;
        if seen.wrong > 0 {
            self.mend(object, round.stripe)?;
        }
        self.patrolled
            .scrub_bytes
            .fetch_add(seen.bytes, Ordering::Relaxed);
        self.patrolled.scrub_stripes.fetch_add(1, Ordering::Relaxed);
        let pieces = 0..object.layout.width();
        let bytes: usize = pieces
            .map(|piece| object.piece_len(round.stripe, piece))
            .sum();
        round.film = object.id;
        round.stripe += 1;
        if round.stripe >= object.stripes() {
            (round.film, round.stripe) = (object.id.saturating_add(1), 0);
        }
        self.keep_round(&round)?;
        Ok((bytes as u64, all))
    }

    fn mend(&self, object: &Object, stripe: u64) -> Result<(), FilmError> {
        let _lock = self.own_moves()?;
        let roster = self.newest_roster()?;
        self.claim_moves(&roster)?;
        if !self.has(object.id) {
            // It was removed meanwhile.
            return Ok(());
        }
        let (_, store) = self.survey(&roster)?;
        match store.settle(object, stripe, Look::Content) {
            // It was mended by somebody else, or its disk is away.
            Ok(settled) if settled.moved + settled.rebuilt == 0 => {}
            Ok(Settled { moved, rebuilt, .. }) => {
                tracing::warn!(
                    film = object.name,
                    stripe,
                    moved,
                    rebuilt,
                    "blocks were mended"
                );
                let mended = &self.patrolled.scrub_mended;
                mended.fetch_add(moved + rebuilt, Ordering::Relaxed);
            }
            Err(error @ BlockError::Lost(_)) => {
                tracing::error!(film = object.name, %error, "blocks are lost");
                self.patrolled.scrub_lost.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => tracing::warn!(film = object.name, %error, "blocks cannot be mended"),
        }
        Ok(())
    }

    fn keep_round(&self, round: &Round) -> Result<(), FilmError> {
        let path = self.archive.join(FILE);
        let text = serde_json::to_vec(round).map_err(io::Error::from);
        let kept = text.and_then(|text| file::replace(&path, &text));
        kept.map_err(FilmError::of(path.display()))
    }

    /// Disks that are not there, of this node and of nodes that do not answer. Those that leave
    /// already are left out, and so are stores: what does not answer there is not gone.
    #[must_use]
    pub fn missing(&self, roster: &Roster) -> Vec<u32> {
        if !roster.is_kept() {
            return Vec::new();
        }
        let ask = Request::Standing { from: 0 };
        let others = self.others(roster);
        let silent = others.iter().filter(|(_, link)| {
            let said = link.ask(&ask, &[]);
            !matches!(said, Ok((Reply::Standing(_), _)))
        });
        let silent: BTreeSet<_> = silent.map(|(node, _)| node.id).collect();
        let own = self.own_node();
        let staying = roster.disks.iter().filter(|disk| !disk.leaving);
        let missing = staying.filter(|disk| match disk.host == own {
            true => !disk.is_far() && self.disk(roster, disk).is_err(),
            false => silent.contains(&disk.host),
        });
        missing.map(|disk| disk.id).collect()
    }

    /// Lets go of disks that are away for good, as [`Films::remove_disk`] does, if every film can
    /// be made whole without them; those that were.
    ///
    /// # Errors
    /// There are too few disks without them, films would lose blocks, or as
    /// [`Films::remove_disk`].
    pub fn give_up(&self, disks: &[u32]) -> Result<Vec<u32>, FilmError> {
        let roster = self.newest_roster()?;
        let (_, mut store) = self.survey(&roster)?;
        for disk in disks {
            store.detach(DiskId(*disk));
        }
        for film in self.list()? {
            if !store.is_whole(&film.object) {
                let message = format!("{:?} would lose blocks", film.object.name);
                return Err(FilmError::Node(message));
            }
        }
        let mut gone = Vec::new();
        for disk in disks {
            match self.remove_disk(&disk.to_string()) {
                Ok(_) => gone.push(*disk),
                Err(_) if !gone.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        let given_up = &self.patrolled.disks_given_up;
        given_up.fetch_add(gone.len() as u64, Ordering::Relaxed);
        Ok(gone)
    }
}

/// About so many bytes of a film lie on disks.
fn on_disks(object: &Object) -> u64 {
    match object.layout {
        Layout::Copies(copies) => object.bytes * u64::from(copies.max(1)),
        Layout::Parity(blocks) => object.bytes + object.bytes / u64::from(blocks.max(1)),
    }
}
