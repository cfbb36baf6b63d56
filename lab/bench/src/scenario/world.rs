//! Where brokers and participants are, and what lies between them.

use std::collections::BTreeSet;

use sangam_emulator::{Control, Site};

use crate::error::Error;
use crate::process::Carrier;

/// The brokers of a run and the places of its participants. `Meeting::users`,
/// `Meeting::publisher` and `Probe::broker` count places, which are brokers where each broker
/// has one.
#[derive(Clone, Debug)]
pub(crate) struct World {
    /// In the order they start.
    pub(crate) brokers: Vec<Stand>,
    /// Where participants are.
    pub(crate) places: Vec<Venue>,
    /// The paths between sites; `None`: everything is on loopback.
    pub(crate) paths: Option<Control>,
    /// What links between brokers go by.
    pub(crate) carrier: Carrier,
}

/// One broker's place.
#[derive(Clone, Debug)]
pub(crate) struct Stand {
    /// Its site; `None`: loopback.
    pub(crate) site: Option<Site>,
    /// The brokers that it dials, which started before.
    pub(crate) dials: Vec<usize>,
}

/// Participants of one place.
#[derive(Clone, Debug)]
pub(crate) struct Venue {
    /// Their site; `None`: loopback.
    pub(crate) site: Option<Site>,
    /// Their broker.
    pub(crate) broker: usize,
}

impl World {
    /// Brokers on loopback, each dialling the one before it, with participants at each.
    pub(crate) fn chain(brokers: usize) -> Self {
        let stand = |number: usize| Stand {
            site: None,
            dials: number.checked_sub(1).into_iter().collect(),
        };
        let venue = |broker| Venue { site: None, broker };
        Self {
            brokers: (0..brokers).map(stand).collect(),
            places: (0..brokers).map(venue).collect(),
            paths: None,
            carrier: Carrier::Udp,
        }
    }

    /// The sites with participants, each once; `None` stands for loopback.
    pub(super) fn homes(&self) -> Vec<Option<&Site>> {
        let mut known = BTreeSet::new();
        let homes = self.places.iter().map(|place| place.site.as_ref());
        homes
            .filter(|site| known.insert(site.map(Site::number)))
            .collect()
    }

    /// Packets that the emulator was too slow for, so far.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel's counters cannot be read.
    pub(super) fn missed(&self) -> Result<u64, Error> {
        let brokers = self.brokers.iter().map(|stand| stand.site.as_ref());
        let places = self.places.iter().map(|place| place.site.as_ref());
        let mut known = BTreeSet::new();
        let sites = brokers.chain(places).flatten();
        let missed = sites
            .filter(|site| known.insert(site.number()))
            .map(Site::missed)
            .sum::<std::io::Result<u64>>();
        missed.map_err(|error| Error::System("a site's counters", error))
    }

    /// Bytes that arrived at each site so far, IP headers included; nothing on loopback.
    ///
    /// # Errors
    /// [`Error::Network`] if the emulator has ended.
    pub(super) fn carried(&self) -> Result<Vec<u64>, Error> {
        let Some(paths) = &self.paths else {
            return Ok(Vec::new());
        };
        let into = |to: usize| {
            let others = (0..paths.sites()).filter(|from| *from != to);
            let bytes = others.map(|from| Ok(paths.counters(from, to)?.arrived_bytes));
            bytes.sum::<Result<u64, sangam_emulator::Error>>()
        };
        let all = (0..paths.sites()).map(into).collect::<Result<_, _>>();
        all.map_err(Error::Network)
    }
}
