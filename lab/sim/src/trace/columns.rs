//! Some moments of some links.

use super::{CHUNK_ROWS, Source};

/// Delays in microseconds, or [`LOST`](super::LOST), by link and moment. At most
/// [`CHUNK_ROWS`] moments.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    rows: usize,
    links: Vec<Vec<u32>>,
}

impl Columns {
    /// Room for so many links.
    #[must_use]
    pub fn new(links: usize) -> Self {
        Self {
            rows: 0,
            links: vec![vec![0; CHUNK_ROWS]; links],
        }
    }

    /// How many moments there are.
    #[must_use]
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// The delays of each link, as many as there are moments.
    pub fn links(&self) -> impl Iterator<Item = &[u32]> {
        self.links.iter().map(|link| &link[..self.rows])
    }

    /// The delays of one link.
    ///
    /// # Panics
    /// If there is no such link.
    #[must_use]
    pub fn link(&self, link: usize) -> &[u32] {
        &self.links[link][..self.rows]
    }

    /// Takes the next `rows` moments, at most [`CHUNK_ROWS`], from sources, one for each link.
    pub fn generate(&mut self, sources: &mut [Source], rows: usize) {
        self.rows = rows.min(CHUNK_ROWS);
        for (link, source) in self.links.iter_mut().zip(sources) {
            source.fill(&mut link[..self.rows]);
        }
    }

    /// Takes these links of others, in this order.
    ///
    /// # Panics
    /// If there is no such link.
    pub fn select(&mut self, whole: &Self, links: &[usize]) {
        self.rows = whole.rows;
        for (mine, link) in self.links.iter_mut().zip(links) {
            mine[..whole.rows].copy_from_slice(whole.link(*link));
        }
    }

    pub(super) fn set_rows(&mut self, rows: usize) {
        self.rows = rows.min(CHUNK_ROWS);
    }

    pub(super) fn link_mut(&mut self, link: usize) -> &mut [u32] {
        &mut self.links[link][..self.rows]
    }

    pub(super) fn len(&self) -> usize {
        self.links.len()
    }
}
