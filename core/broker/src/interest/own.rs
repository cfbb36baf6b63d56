//! What this broker's own clients want.

use core::time::Duration;
use std::collections::BTreeMap;

use sangam_model::limits::FILTERS_PER_BROKER;
use sangam_model::{Filter, Time};

use super::InterestError;
use super::parts::{self, Parts};

/// A version is told again after so long.
pub const REFRESH: Duration = Duration::from_secs(10);
/// Changes within so long make one version.
const COALESCE: Duration = Duration::from_millis(20);
/// And so much longer for each part, as every version is told whole.
const COALESCE_PER_PART: Duration = Duration::from_millis(1);

/// The own filters, counted, and the version the neighbours are told.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) version: u32,
    pub(crate) parts: Parts,
    filters: BTreeMap<Filter, u32>,
    changed: bool,
    /// Changes are told from then on.
    open: Time,
    refresh: Time,
}

impl Own {
    pub(crate) fn new() -> Self {
        Self {
            version: 1,
            parts: parts::cut([].iter()),
            filters: BTreeMap::new(),
            changed: false,
            open: Time::ZERO,
            refresh: Time::NEVER,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.filters.len()
    }

    pub(crate) fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.filters.keys()
    }

    pub(crate) fn add(&mut self, filter: &Filter) -> Result<(), InterestError> {
        if let Some(count) = self.filters.get_mut(filter) {
            *count += 1;
            return Ok(());
        }
        if self.filters.len() >= FILTERS_PER_BROKER {
            return Err(InterestError::Full);
        }
        self.filters.insert(filter.clone(), 1);
        self.changed = true;
        Ok(())
    }

    pub(crate) fn remove(&mut self, filter: &Filter) -> Result<(), InterestError> {
        let count = self.filters.get_mut(filter).ok_or(InterestError::Unknown)?;
        *count -= 1;
        if *count == 0 {
            self.filters.remove(filter);
            self.changed = true;
        }
        Ok(())
    }

    /// Makes a new version if it is time for one; whether it did.
    pub(crate) fn advance(&mut self, now: Time) -> bool {
        let changed = self.changed && now >= self.open;
        if changed {
            self.parts = parts::cut(self.filters.keys());
            self.changed = false;
            let parts = u32::try_from(self.parts.len()).unwrap_or(u32::MAX);
            self.open = now + COALESCE + COALESCE_PER_PART * (parts - 1);
        }
        if !changed && now < self.refresh {
            return false;
        }
        self.version = self.version.wrapping_add(1);
        self.refresh = now + REFRESH;
        true
    }

    /// Goes past a version of ours that the network still remembers.
    pub(crate) const fn overtake(&mut self, version: u32, now: Time) {
        self.version = version;
        self.refresh = now;
    }

    /// Starts to refresh, as somebody listens.
    pub(crate) fn heard_by_someone(&mut self, now: Time) {
        self.refresh = self.refresh.min(now + REFRESH);
    }

    pub(crate) fn deadline(&self) -> Time {
        if self.changed {
            self.refresh.min(self.open)
        } else {
            self.refresh
        }
    }
}
