//! The delays of all paths, and when which link is probed.

use sangam_route::Paths;

use crate::trace::{CHUNK_ROWS, Columns, LOST};

/// Moments between two probes of a link: two a second.
const PROBE_EVERY: u64 = 50;

/// Delays of paths in microseconds, or [`LOST`], of some moments.
#[derive(Clone, Debug)]
pub(super) struct Delays {
    paths: usize,
    values: Vec<u32>,
}

impl Delays {
    pub(super) fn new(paths: usize) -> Self {
        Self {
            paths,
            values: Vec::with_capacity(paths * CHUNK_ROWS),
        }
    }

    /// Adds up links: a packet sees each link as it is when the packet is sent.
    pub(super) fn fill(&mut self, paths: &Paths, columns: &Columns) {
        self.values.clear();
        self.values.resize(self.paths * columns.rows(), 0);
        for (path, ways) in paths.iter().enumerate() {
            for link in ways.links() {
                let sums = self.values[path..].iter_mut().step_by(self.paths);
                for (sum, delay) in sums.zip(columns.link(usize::from(*link))) {
                    let lost = *delay == LOST || *sum == LOST;
                    *sum = if lost { LOST } else { *sum + delay };
                }
            }
        }
    }

    /// By path, at a moment of the chunk.
    pub(super) fn at(&self, row: usize) -> &[u32] {
        &self.values[row * self.paths..][..self.paths]
    }
}

/// Each link is probed twice a second, not all of them at once.
#[derive(Clone, Debug)]
pub(super) struct Probing(Vec<Vec<u16>>);

impl Probing {
    pub(super) fn new(links: usize) -> Self {
        let mut at = vec![Vec::new(); PROBE_EVERY as usize];
        for link in 0..links {
            at[link * PROBE_EVERY as usize / links.max(1)].push(link as u16);
        }
        Self(at)
    }

    /// The links that are probed at a moment.
    pub(super) fn at(&self, moment: u64) -> &[u16] {
        &self.0[(moment % PROBE_EVERY) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_is_probed_twice_a_second() {
        let probing = Probing::new(21);
        let mut count = [0; 21];
        for moment in 0..100 {
            for link in probing.at(moment) {
                count[usize::from(*link)] += 1;
            }
        }
        assert_eq!(count, [2; 21]);
    }
}
