//! The paths of one session through relays, as chains of links.

/// Links of the longest path: two relays.
pub const PATH_LINKS_MAX: usize = 3;
/// Relays whose paths are listed; 31 give 962 paths.
pub const RELAYS_MAX: usize = 31;
/// Paths of one session.
pub const PATHS_MAX: usize = 1_024;

/// A path: the links it crosses, by number, first link first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    links: [u16; PATH_LINKS_MAX],
    len: u8,
}

/// The paths between one sender and one receiver. Number 0 is the direct one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    paths: Vec<Path>,
    /// Where the paths through each link begin in `through`, and where the last ones end.
    starts: Vec<u32>,
    /// Paths by the links they cross.
    through: Vec<u16>,
}

impl Path {
    /// The links' numbers, in the order they are crossed; at most [`PATH_LINKS_MAX`].
    #[must_use]
    pub fn links(&self) -> &[u16] {
        &self.links[..usize::from(self.len)]
    }

    fn new(crossed: &[usize]) -> Self {
        let mut links = [0; PATH_LINKS_MAX];
        for (to, from) in links.iter_mut().zip(crossed) {
            *to = *from as u16;
        }
        Self {
            links,
            len: crossed.len().min(PATH_LINKS_MAX) as u8,
        }
    }
}

impl Paths {
    /// All paths by at most two of `relays` relays (at most [`RELAYS_MAX`] count): the direct one,
    /// then one for each relay, then one for each ordered pair of relays. Four relays have 17
    /// paths of 21 links.
    ///
    /// With R relays, link 0 is the direct one, `1 + r` leads from the sender to relay r,
    /// `1 + R + r` from relay r to the receiver, and those between relays follow, ordered by the
    /// first relay and then by the second.
    #[must_use]
    pub fn overlay(relays: usize) -> Self {
        let relays = relays.min(RELAYS_MAX);
        let up = |relay: usize| 1 + relay;
        let down = |relay: usize| 1 + relays + relay;
        let mut paths = vec![Path::new(&[0])];
        paths.extend((0..relays).map(|relay| Path::new(&[up(relay), down(relay)])));
        let mut link = 1 + 2 * relays;
        for first in 0..relays {
            for second in (0..relays).filter(|second| *second != first) {
                paths.push(Path::new(&[up(first), link, down(second)]));
                link += 1;
            }
        }
        Self::index(paths, link)
    }

    /// So many paths of one link each, with the number of their link; at least one and at most
    /// [`PATHS_MAX`]. They have nothing in common.
    #[must_use]
    pub fn parallel(count: usize) -> Self {
        let links = count.clamp(1, PATHS_MAX);
        Self::index((0..links).map(|link| Path::new(&[link])).collect(), links)
    }

    fn index(paths: Vec<Path>, links: usize) -> Self {
        let mut starts = vec![0];
        let mut through = Vec::new();
        for link in 0..links as u16 {
            let numbered = paths.iter().enumerate();
            let crossing = numbered.filter(|(_, path)| path.links().contains(&link));
            through.extend(crossing.map(|(number, _)| number as u16));
            starts.push(through.len() as u32);
        }
        Self {
            paths,
            starts,
            through,
        }
    }

    /// How many there are; at least one.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "there is always the direct path"
    )]
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// How many links they cross together.
    #[must_use]
    pub fn links(&self) -> usize {
        self.starts.len() - 1
    }

    /// The numbers of the paths that cross a link.
    #[must_use]
    pub fn through(&self, link: usize) -> &[u16] {
        match self.starts.get(link..=link.saturating_add(1)) {
            Some(&[start, end]) => &self.through[start as usize..end as usize],
            _ => &[],
        }
    }

    /// The path of a number.
    #[must_use]
    pub fn get(&self, path: usize) -> Option<&Path> {
        self.paths.get(path)
    }

    /// All of them, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_relays_have_seventeen_paths_of_twenty_one_links() {
        let paths = Paths::overlay(4);
        assert_eq!((paths.len(), paths.links()), (17, 21));
        let mut used: Vec<u16> = paths.iter().flat_map(Path::links).copied().collect();
        used.sort_unstable();
        used.dedup();
        assert_eq!(used.len(), 21);
        assert_eq!(paths.get(0).unwrap().links(), [0]);
        assert_eq!(paths.get(2).unwrap().links(), [2, 6]);
        // From relay 1 to relay 0 is the fourth of the links between relays.
        assert_eq!(paths.get(8).unwrap().links(), [2, 12, 5]);
        assert_eq!(paths.get(17), None);
        assert_eq!(paths.through(0), [0]);
        assert_eq!(paths.through(2), [2, 8, 9, 10]);
        assert_eq!(paths.through(21), []);
    }

    #[test]
    fn no_relay_leaves_the_direct_path_and_many_are_bounded() {
        assert_eq!(Paths::overlay(0).len(), 1);
        assert!(Paths::overlay(usize::MAX).len() <= PATHS_MAX);
        assert_eq!(Paths::parallel(0).len(), 1);
        assert_eq!(Paths::parallel(900).links(), 900);
        assert_eq!(Paths::parallel(usize::MAX).len(), PATHS_MAX);
    }
}
