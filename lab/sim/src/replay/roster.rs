//! Which methods and receivers take part.

use core::time::Duration;

use sangam_jitter::{Config, Kind};
use sangam_route::Method;
use sangam_route::method::Settings;

/// A method with its settings and the receivers that listen to it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What it is called in reports: the method's name, and what was changed.
    pub name: String,
    /// The method.
    pub method: Method,
    /// How the method is set; seed and history are filled in for each session.
    pub settings: Settings,
    /// Who listens.
    pub receivers: Vec<Listener>,
}

/// A receiver with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// What it is called in reports: the kind's name, and what was changed.
    pub name: String,
    /// The kind.
    pub kind: Kind,
    /// How it is set.
    pub config: Config,
}

/// Everything that is compared on the same networks.
#[derive(Clone, Debug)]
pub struct Roster {
    /// `study` or `ablation`.
    pub name: &'static str,
    /// The methods.
    pub entries: Vec<Entry>,
}

/// Percentiles of WMJitter beside its own 95th, for curves of latency against loss.
const PERCENTILES: [f64; 3] = [0.8, 0.99, 0.999];
/// Milliseconds that a percent of loss is worth to our receiver, beside its own 20.
const WORTHS: [f64; 3] = [2.0, 80.0, 320.0];

impl Roster {
    /// All methods with all receivers, and more settings of both receivers that are compared at
    /// matched loss where that is asked: behind VCRoute, VCRoute with probes, and ours.
    #[must_use]
    pub fn study() -> Self {
        let entries = Method::ALL.into_iter().map(|method| {
            let mut receivers: Vec<Listener> = Kind::ALL.into_iter().map(Listener::plain).collect();
            if matches!(
                method,
                Method::VcRoute | Method::VcRouteProbed | Method::Ours
            ) {
                receivers.extend(curves());
            }
            Entry::plain(method, receivers)
        });
        Self {
            name: "study",
            entries: entries.collect(),
        }
    }

    /// The study's, and the methods that do what a live network does: for a trace that somebody
    /// brought, perhaps from one.
    #[must_use]
    pub fn replay() -> Self {
        let mut roster = Self::study();
        let plain = || Kind::ALL.into_iter().map(Listener::plain).collect();
        let live = Method::LIVE.into_iter();
        roster
            .entries
            .extend(live.map(|method| Entry::plain(method, plain())));
        roster
    }

    /// Single changes of methods and receivers.
    #[must_use]
    pub fn ablation() -> Self {
        let kinds = [
            Kind::WmJitter,
            Kind::WmJitterLiteral,
            Kind::WmJitterLiteralWindow,
            Kind::Ours,
        ];
        let all = || kinds.map(Listener::plain).to_vec();
        let mut entries = vec![
            Entry::plain(Method::Direct, all()),
            Entry::plain(Method::Oracle, all()),
        ];
        for method in [Method::VcRoute, Method::VcRouteLiteral, Method::Ours] {
            entries.push(Entry::plain(method, all()));
        }
        for (name, minutes) in [("1min", 1), ("10min", 10), ("1h", 60), ("24h", 1_440)] {
            let mut entry = Entry::plain(Method::Via, all());
            entry.name = format!("via-{name}");
            entry.settings.refresh = Duration::from_secs(60 * minutes);
            entries.push(entry);
        }
        entries.extend(super::changes::entries(&all()));
        Self {
            name: "ablation",
            entries,
        }
    }

    /// A number that changes with the names and places of all entries.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let names = self.entries.iter().flat_map(|entry| {
            let receivers = entry.receivers.iter().map(|listener| &listener.name);
            core::iter::once(&entry.name).chain(receivers)
        });
        names.fold(0xcbf2_9ce4_8422_2325, |hash, name| {
            let bytes = name.bytes().chain([0]);
            bytes.fold(hash, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            })
        })
    }

    /// The place of an entry and of one of its receivers.
    #[must_use]
    pub fn find(&self, entry: &str, receiver: &str) -> Option<(usize, usize)> {
        let place = self.entries.iter().position(|e| e.name == entry)?;
        let receivers = &self.entries[place].receivers;
        Some((place, receivers.iter().position(|r| r.name == receiver)?))
    }
}

impl Entry {
    /// A method with its defaults.
    #[must_use]
    pub fn plain(method: Method, receivers: Vec<Listener>) -> Self {
        Self {
            name: method.name().to_owned(),
            method,
            settings: super::changes::settings(method),
            receivers,
        }
    }
}

impl Listener {
    /// A receiver with its defaults.
    #[must_use]
    pub fn plain(kind: Kind) -> Self {
        Self {
            name: kind.name().to_owned(),
            kind,
            config: Config::default(),
        }
    }
}

/// The same receivers at other points between latency and loss.
fn curves() -> Vec<Listener> {
    let strict = PERCENTILES.map(|percentile| Listener {
        name: format!("wmjitter-p{:.0}", percentile * 1_000.0),
        kind: Kind::WmJitter,
        config: Config {
            percentile,
            ..Config::default()
        },
    });
    let dear = WORTHS.map(|worth| Listener {
        name: format!("ours-{worth:.0}ms"),
        kind: Kind::Ours,
        config: Config {
            ms_per_loss_percent: worth,
            ..Config::default()
        },
    });
    strict.into_iter().chain(dear).collect()
}
