//! What this broker's own clients want and publish, by scope.

use std::collections::BTreeMap;

use sangam_model::limits::FILTERS_PER_BROKER;
use sangam_model::{Filter, Scope};

use super::RoutingError;

/// Different filters with a wildcard in their first two levels: each joins every broker's tree.
pub const WIDE_FILTERS_MAX: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Own {
    filters: BTreeMap<Scope, BTreeMap<Filter, u32>>,
    sources: BTreeMap<Scope, u32>,
    len: usize,
}

impl Own {
    /// Counts a filter; the scope whose filters changed, if they did.
    pub(super) fn add(&mut self, filter: &Filter) -> Result<Option<Scope>, RoutingError> {
        let scope = Scope::of_filter(filter);
        let filters = self.filters.entry(scope.clone()).or_default();
        if let Some(count) = filters.get_mut(filter) {
            *count += 1;
            return Ok(None);
        }
        let error = if scope.is_wide() && filters.len() >= WIDE_FILTERS_MAX {
            Some(RoutingError::Wide)
        } else if self.len >= FILTERS_PER_BROKER {
            Some(RoutingError::Full)
        } else {
            None
        };
        if let Some(error) = error {
            self.tidy(&scope);
            return Err(error);
        }
        filters.insert(filter.clone(), 1);
        self.len += 1;
        Ok(Some(scope))
    }

    /// Takes one count back; the scope whose filters changed, if they did.
    pub(super) fn remove(&mut self, filter: &Filter) -> Result<Option<Scope>, RoutingError> {
        let scope = Scope::of_filter(filter);
        let filters = self.filters.get_mut(&scope);
        let filters = filters.ok_or(RoutingError::Unknown)?;
        let count = filters.get_mut(filter).ok_or(RoutingError::Unknown)?;
        *count -= 1;
        if *count > 0 {
            return Ok(None);
        }
        filters.remove(filter);
        self.len -= 1;
        self.tidy(&scope);
        Ok(Some(scope))
    }

    /// Whether this is the first source in the scope.
    pub(super) fn add_source(&mut self, scope: &Scope) -> bool {
        let count = self.sources.entry(scope.clone()).or_default();
        *count += 1;
        *count == 1
    }

    /// Whether this was the last source in the scope.
    pub(super) fn remove_source(&mut self, scope: &Scope) -> bool {
        let Some(count) = self.sources.get_mut(scope) else {
            return false;
        };
        *count -= 1;
        let last = *count == 0;
        if last {
            self.sources.remove(scope);
        }
        last
    }

    pub(super) fn all_filters(&self) -> impl Iterator<Item = &Filter> {
        self.filters.values().flat_map(BTreeMap::keys)
    }

    pub(super) fn filters(&self, scope: &Scope) -> impl Iterator<Item = &Filter> {
        self.filters.get(scope).into_iter().flat_map(BTreeMap::keys)
    }

    pub(super) fn wants(&self, scope: &Scope) -> bool {
        self.filters.contains_key(scope)
    }

    pub(super) fn publishes(&self, scope: &Scope) -> bool {
        self.sources.contains_key(scope)
    }

    /// Different filters.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    fn tidy(&mut self, scope: &Scope) {
        if self.filters.get(scope).is_some_and(BTreeMap::is_empty) {
            self.filters.remove(scope);
        }
    }
}
