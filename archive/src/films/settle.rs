//! Blocks on their way to where they belong, and everything looked through.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use sangam_placement::DiskId;

use super::{Film, FilmError, Films, Roster, Summary, file};
use crate::blocks::{BlockError, Look, Settled, Store};
use crate::nodes::Node;

/// How often the other nodes are told that blocks are still moved.
const CLAIM_EVERY: Duration = Duration::from_secs(3);

/// How far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Stripes looked at, of so many.
    pub stripes: (u64, u64),
    /// Bytes written so far: what a throttle goes by.
    pub written: u64,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What was done to pieces.
    pub settled: Settled,
    /// Stripes looked at.
    pub stripes: u64,
    /// Names of films that have lost more than they can, and how many stripes of each.
    pub lost: Vec<(String, u64)>,
    /// Stripes that could not be settled for another reason, and the first such reason.
    pub failed: (u64, Option<String>),
    /// Disks that were let go of.
    pub gone: Vec<u32>,
    /// Films whose index was made again.
    pub learned: Vec<String>,
    /// Films that were never put to their end, and removed.
    pub cleared: u64,
    /// Films whose removal was interrupted, and that are gone now.
    pub removed: u64,
    /// All was looked at, and nothing is left to be done.
    pub is_complete: bool,
}

impl Films {
    /// Brings every stripe to where it belongs, and lets go of disks that leave when they are
    /// empty. `goes_on` is asked after each stripe, and may wait.
    ///
    /// # Errors
    /// [`FilmError::Busy`], or the roster cannot be read or written.
    pub fn settle(
        &self,
        look: Look,
        goes_on: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<Report, FilmError> {
        if !self.roster()?.is_kept() {
            return Ok(Report::nothing());
        }
        let _lock = self.own_moves()?;
        let mut report = Report::default();
        self.settle_all(look, goes_on, &mut report)?;
        Ok(report)
    }

    /// The same with a look at every byte; indexes that are gone are made again, and what was never
    /// put to its end is removed, unless a disk is away, or films are being put.
    ///
    /// # Errors
    /// As [`Films::settle`].
    pub fn scrub(&self, goes_on: &mut dyn FnMut(&Progress) -> bool) -> Result<Report, FilmError> {
        if !self.roster()?.is_kept() {
            return Ok(Report::nothing());
        }
        let _lock = self.own_moves()?;
        let mut report = Report::default();
        self.clear_up(&mut report)?;
        self.settle_all(Look::Content, goes_on, &mut report)?;
        Ok(report)
    }

    /// Of every film: pieces that are not where they belong, and whether it is whole.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn health(&self, store: &Store) -> Result<Vec<(Summary, u64, bool)>, FilmError> {
        let mut health = Vec::new();
        for film in self.list()? {
            let astray = store.astray(&film.object)?;
            let is_whole = store.is_whole(&film.object);
            health.push((film, astray, is_whole));
        }
        Ok(health)
    }

    fn settle_all(
        &self,
        look: Look,
        goes_on: &mut dyn FnMut(&Progress) -> bool,
        report: &mut Report,
    ) -> Result<(), FilmError> {
        let roster = self.newest_roster()?;
        self.claim_moves(&roster)?;
        let mut claimed = Instant::now();
        let (_, store) = self.survey(&roster)?;
        let films = self.list()?;
        let all = films.iter().map(|film| film.object.stripes()).sum();
        for film in &films {
            let mut lost = 0;
            for number in 0..film.object.stripes() {
                match store.settle(&film.object, number, look) {
                    Ok(settled) => report.settled.add(&settled),
                    Err(BlockError::Lost(_)) => lost += 1,
                    Err(error) => report.fail(&error),
                }
                report.stripes += 1;
                let progress = Progress {
                    stripes: (report.stripes, all),
                    written: report.settled.written,
                };
                if !goes_on(&progress) {
                    return Ok(());
                }
                if claimed.elapsed() >= CLAIM_EVERY {
                    self.claim_moves(&roster)?;
                    claimed = Instant::now();
                }
            }
            if lost > 0 {
                report.lost.push((film.object.name.clone(), lost));
            }
        }
        let is_done = report.lost.is_empty() && report.failed.0 == 0;
        if is_done && report.settled.waiting == 0 {
            self.finish(&roster, report)?;
        }
        Ok(())
    }

    /// Notes that all is settled, unless disks or films changed meanwhile.
    fn finish(&self, before: &Roster, report: &mut Report) -> Result<(), FilmError> {
        if !before.is_kept() {
            report.is_complete = true;
            return Ok(());
        }
        // Whoever puts films now may do so by the disks of before: it is looked at again.
        let Some(_lock) = self.try_own()? else {
            return Ok(());
        };
        let mut roster = self.roster()?;
        if roster.changes != before.changes {
            return Ok(());
        }
        let (_, store) = self.survey(&roster)?;
        let is_astray = |film: &Summary| store.astray(&film.object).map(|astray| astray > 0);
        for film in self.list()? {
            // It was put by the disks of before.
            if is_astray(&film)? {
                return Ok(());
            }
        }
        let leaves = |id, leaving| leaving && store.lies(DiskId(id)).is_none_or(|lies| lies == 0);
        let gone = roster.disks.iter();
        let gone = gone.filter(|disk| leaves(disk.id, disk.leaving));
        report.gone = gone.map(|disk| disk.id).collect();
        roster.disks.retain(|disk| !report.gone.contains(&disk.id));
        report.is_complete = roster.disks.iter().all(|disk| !disk.leaving);
        if report.is_complete && (!roster.is_settled() || !report.gone.is_empty()) {
            roster.settled = roster.changes;
        }
        let changed = roster != *before;
        if changed {
            // A node without disks is none.
            let hosts: BTreeSet<_> = roster.disks.iter().map(|disk| disk.host).collect();
            let stays = |node: &Node| !node.leaving || hosts.contains(&node.id);
            roster.nodes.retain(stays);
            self.publish(&roster)?;
        }
        Ok(())
    }

    /// Makes indexes again that are gone, and removes films that were never put to their end.
    fn clear_up(&self, report: &mut Report) -> Result<(), FilmError> {
        let Some(_lock) = self.try_own()? else {
            return Ok(());
        };
        let roster = self.roster()?;
        let (states, store) = self.survey(&roster)?;
        store.clear()?;
        // Asked behind the look at the disks: what was seen there and is not put
        // now was put to its end, or never will be.
        let may_be_put = self.others_put(&roster);
        let folder = self.folder();
        let known = self.list()?.into_iter().map(|film| film.object.id);
        // What is behind the heads must be right, too.
        let known = known.filter(|id| file::read(&file::path(&folder, *id)).is_ok());
        let known: BTreeSet<_> = known.collect();
        let is_away = states.iter().any(|state| state.away.is_some());
        let going = self.going()?;
        for id in &going {
            store.remove(*id)?;
            if !is_away {
                self.forget(*id)?;
                report.removed += 1;
            }
        }
        for (object, is_whole) in store.strangers(&known) {
            // What is left of it lies where nothing can be let go of.
            if going.contains(&object.id) {
                continue;
            }
            if is_whole {
                // One that cannot be made again keeps nobody from the others.
                match self.learn(&object) {
                    Ok(index) => {
                        report.learned.push(object.name.clone());
                        self.keep(&Film { object, index })?;
                    }
                    Err(error) => report.fail(&error),
                }
            } else if !is_away && !may_be_put {
                store.remove(object.id)?;
                report.cleared += 1;
            }
        }
        Ok(())
    }
}

impl Report {
    /// There never was a film nor a disk: nothing is made of it, not even a lock.
    fn nothing() -> Self {
        Self {
            is_complete: true,
            ..Self::default()
        }
    }

    fn fail(&mut self, error: &dyn core::fmt::Display) {
        self.failed.0 += 1;
        self.failed.1.get_or_insert_with(|| error.to_string());
    }
}
