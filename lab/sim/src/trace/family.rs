//! The networks of the study, each from a family and a seed.

use std::io::Write;

use sangam_model::Random;
use sangam_model::hash::{KEY, fold};

use super::data::{DRAW_LINKS, DRAWS, Ping, Pings, Series};
use super::generate::{Level, Recipe, Wobble};
use super::{CHUNK_ROWS, Columns, Link, Overlay, Session, Source, TraceError, Writer};

/// Endpoints and users of Table II, as the published pings name their cities.
const CITIES: [&str; 5] = ["SaoPaulo", "Sydney", "Singapore", "CapeTown", "Athens"];
const CITY_USERS: [&str; 5] = ["BuenosAires", "Jakarta", "Kampala", "NewYork", "Vilnius"];
/// Tokyo, Hong Kong, Singapore, Frankfurt and Sao Paulo; users in Mumbai, Sydney and Los Angeles.
const REGIONS: [&str; 5] = [
    "asia-northeast1",
    "asia-east2",
    "asia-southeast1",
    "europe-west3",
    "southamerica-east1",
];
const REGION_USERS: [&str; 3] = ["asia-south1", "australia-southeast1", "us-west2"];
/// A day of pings, 30 an hour.
const PINGED: u32 = 720;
/// Three hours of congestion that changes about every 90 s.
const CONGESTED: u32 = 120;
const US: f64 = 1_000.0;

/// A kind of network, as the study names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Ten cities, calm: published pings, correlated and heavy-tailed around their means.
    T1,
    /// The same with measured congestion at so many quarters of its strength.
    T2(u8),
    /// Personal devices in Seattle: 25 draws of six.
    T3,
    /// So many parallel paths of normal delays: the paper's section VI-D.
    T4(u16),
    /// Eight regions of a cloud, calm; with spikes if set.
    T5(bool),
    /// Ten cities, every packet's delay on its own: what the paper's simulator most likely did.
    T7,
}

/// A network that is made from a seed, link by link.
#[derive(Clone, Debug)]
pub struct Generator {
    overlay: Overlay,
    recipes: Vec<Recipe>,
}

impl Family {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 12] = [
        Self::T1,
        Self::T2(1),
        Self::T2(2),
        Self::T2(4),
        Self::T2(8),
        Self::T3,
        Self::T4(9),
        Self::T4(90),
        Self::T4(900),
        Self::T5(false),
        Self::T5(true),
        Self::T7,
    ];

    /// Its name in commands, files and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::T1 => "t1",
            Self::T2(1) => "t2-quarter",
            Self::T2(2) => "t2-half",
            Self::T2(8) => "t2-double",
            Self::T2(_) => "t2",
            Self::T3 => "t3",
            Self::T4(9) => "t4-9",
            Self::T4(90) => "t4-90",
            Self::T4(_) => "t4-900",
            Self::T5(false) => "t5",
            Self::T5(true) => "t5-spikes",
            Self::T7 => "t7",
        }
    }

    /// What it is, in words.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::T1 => "ten cities (WonderProxy), calm",
            Self::T2(1) => "ten cities with a quarter of the congestion measured in Seattle",
            Self::T2(2) => "ten cities with half of the congestion measured in Seattle",
            Self::T2(8) => "ten cities with twice the congestion measured in Seattle",
            Self::T2(_) => "ten cities with the congestion measured in Seattle",
            Self::T3 => "personal devices in Seattle, 25 draws of six",
            Self::T4(9) => "9 parallel paths, normal delays",
            Self::T4(90) => "90 parallel paths, normal delays",
            Self::T4(_) => "900 parallel paths, normal delays",
            Self::T5(false) => "eight regions of Google's cloud, calm",
            Self::T5(true) => "eight regions of Google's cloud, with spikes",
            Self::T7 => "ten cities, each packet's delay independent and normal",
        }
    }

    /// The family of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }

    /// The network of a seed, with so many moments.
    #[must_use]
    pub fn generator(self, seed: u64, rows: u64) -> Generator {
        let mut made = match self {
            Self::T1 => pinged(&CITIES, &CITY_USERS, &Pings::TEN_CITIES, calm),
            Self::T7 => pinged(&CITIES, &CITY_USERS, &Pings::TEN_CITIES, independent),
            Self::T2(quarters) => {
                let calm = pinged(&CITIES, &CITY_USERS, &Pings::TEN_CITIES, calm);
                congested(calm, seed, f64::from(quarters) / 4.0)
            }
            Self::T3 => seattle(),
            Self::T4(paths) => parallel(paths, seed),
            Self::T5(spikes) => {
                let mut made = pinged(&REGIONS, &REGION_USERS, &Pings::GCP, calm);
                made.recipes
                    .iter_mut()
                    .for_each(|recipe| recipe.spikes = spikes);
                made
            }
        };
        for (number, recipe) in made.recipes.iter_mut().enumerate() {
            recipe.seed = fold(fold(seed, self.stream()), fold(number as u64, KEY));
        }
        for (link, recipe) in made.overlay.links.iter_mut().zip(&made.recipes) {
            let (mean, deviation) = recipe.past();
            (link.mean_us, link.deviation_us) = ((mean + 0.5) as u32, (deviation + 0.5) as u32);
        }
        made.overlay.name = self.name().to_owned();
        made.overlay.seed = seed;
        made.overlay.rows = rows;
        made.overlay.history = match self {
            Self::T2(_) | Self::T3 => CONGESTED,
            _ => PINGED,
        };
        made
    }

    /// Families of one stream share their chance: T2 is T1 with something added.
    const fn stream(self) -> u64 {
        match self {
            Self::T1 | Self::T2(_) => 1,
            Self::T3 => 3,
            Self::T4(paths) => 0x400 + paths as u64,
            Self::T5(_) => 5,
            Self::T7 => 7,
        }
    }
}

impl Generator {
    /// Who is in it.
    #[must_use]
    pub const fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// The sources of all links.
    #[must_use]
    pub fn sources(&self) -> Vec<Source> {
        self.recipes.iter().map(Source::new).collect()
    }

    /// The sources of these links alone.
    #[must_use]
    pub fn sources_of(&self, links: &[usize]) -> Vec<Source> {
        let recipes = links.iter().filter_map(|link| self.recipes.get(*link));
        recipes.map(Source::new).collect()
    }

    /// Writes the whole trace; returns its hash. With `std::io::sink()` it only finds the hash.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write(&self, out: impl Write) -> Result<u64, TraceError> {
        let mut writer = Writer::new(out, &self.overlay)?;
        let mut sources = self.sources();
        let mut columns = Columns::new(sources.len());
        let mut left = self.overlay.rows;
        while left > 0 {
            let rows = left.min(CHUNK_ROWS as u64);
            columns.generate(&mut sources, rows as usize);
            writer.chunk(&columns)?;
            left -= rows;
        }
        writer.finish()
    }
}

/// Endpoints that relay for each other, users that hear all of them.
fn pinged(
    endpoints: &[&str],
    users: &[&str],
    pings: &Pings,
    recipe: fn(Ping) -> Recipe,
) -> Generator {
    let nodes: Vec<&str> = endpoints.iter().chain(users).copied().collect();
    let mut overlay = Overlay {
        nodes: nodes.iter().map(|&name| name.to_owned()).collect(),
        ..Overlay::default()
    };
    let mut recipes = Vec::new();
    for from in 0..endpoints.len() {
        for to in (0..nodes.len()).filter(|to| *to != from) {
            let ping = pings
                .get(nodes[from], nodes[to])
                .expect("the tables in lab/sim/data hold every pair");
            overlay.links.push(link(from, to));
            recipes.push(recipe(ping));
        }
        for to in endpoints.len()..nodes.len() {
            let relays = (0..endpoints.len()).filter(|relay| *relay != from);
            overlay.sessions.push(Session {
                from: from as u16,
                to: to as u16,
                relays: relays.map(|relay| relay as u16).collect(),
            });
        }
    }
    Generator { overlay, recipes }
}

/// A round trip halved, with the wobble around its mean.
fn calm(ping: Ping) -> Recipe {
    Recipe {
        base_us: ping.min / 2.0 * US,
        wobble: Wobble::Correlated {
            mean_us: (ping.avg - ping.min) / 2.0 * US,
            deviation_us: ping.dev / 2.0 * US,
        },
        congestion: None,
        spikes: false,
        seed: 0,
    }
}

fn independent(ping: Ping) -> Recipe {
    Recipe {
        base_us: ping.avg / 2.0 * US,
        wobble: Wobble::Normal {
            deviation_us: ping.dev / 2.0 * US,
            least_us: ping.min / 2.0 * US,
        },
        ..calm(ping)
    }
}

/// Gives each link one of the measured series.
fn congested(mut made: Generator, seed: u64, scale: f64) -> Generator {
    let series = Series::seattle();
    let mut random = Random::new(fold(seed, 0x0c0f_fee0));
    for recipe in &mut made.recipes {
        let chosen = series.get(random.below(series.len()));
        let (_, excess) = above_least(chosen);
        recipe.congestion = Some(Level { excess, scale });
    }
    made
}

/// 25 draws side by side: nobody talks across.
fn seattle() -> Generator {
    let series = Series::seattle();
    let mut overlay = Overlay::default();
    let mut recipes = Vec::new();
    for draw in 0..DRAWS {
        let first = overlay.nodes.len();
        let names = ["sender", "receiver", "relay1", "relay2", "relay3", "relay4"];
        overlay
            .nodes
            .extend(names.map(|name| format!("{name}-{}", draw + 1)));
        let (sender, receiver) = (first, first + 1);
        let relays = first + 2..first + 6;
        overlay.links.push(link(sender, receiver));
        overlay
            .links
            .extend(relays.clone().map(|relay| link(sender, relay)));
        overlay
            .links
            .extend(relays.clone().map(|relay| link(relay, receiver)));
        for a in relays.clone() {
            overlay
                .links
                .extend(relays.clone().filter(|b| *b != a).map(|b| link(a, b)));
        }
        overlay.sessions.push(Session {
            from: sender as u16,
            to: receiver as u16,
            relays: relays.map(|relay| relay as u16).collect(),
        });
        for number in 0..DRAW_LINKS {
            recipes.push(device(series.get(draw * DRAW_LINKS + number)));
        }
    }
    Generator { overlay, recipes }
}

/// A link whose base is the smallest round trip of its series, halved; a measured 0 means less
/// than the grain of 10 ms, of which half is taken.
fn device(series: &[u16]) -> Recipe {
    let (least, excess) = above_least(series);
    Recipe {
        base_us: f64::from(least).max(0.5) * 5.0 * US,
        wobble: Wobble::Correlated {
            mean_us: 1.5 * US,
            deviation_us: US,
        },
        congestion: Some(Level { excess, scale: 1.0 }),
        spikes: false,
        seed: 0,
    }
}

/// Section VI-D: means between 100 and 200 ms, a third each with deviations 10, 20 and 30 ms.
fn parallel(paths: u16, seed: u64) -> Generator {
    let mut random = Random::new(fold(seed, 0x4a7e));
    let mut overlay = Overlay {
        nodes: ["endpoint", "user"].map(str::to_owned).to_vec(),
        ..Overlay::default()
    };
    overlay.sessions.push(Session {
        from: 0,
        to: 1,
        relays: Vec::new(),
    });
    let mut recipes = Vec::new();
    for path in 0..paths {
        overlay.links.push(link(0, 1));
        recipes.push(Recipe {
            base_us: (100.0 + 100.0 * random.unit()) * US,
            wobble: Wobble::Normal {
                deviation_us: f64::from(10 + 10 * (path % 3)) * US,
                least_us: US,
            },
            congestion: None,
            spikes: false,
            seed: 0,
        });
    }
    Generator { overlay, recipes }
}

fn above_least(series: &[u16]) -> (u16, Vec<u16>) {
    let least = series.iter().copied().min().unwrap_or_default();
    (least, series.iter().map(|value| value - least).collect())
}

fn link(from: usize, to: usize) -> Link {
    Link {
        from: from as u16,
        to: to as u16,
        mean_us: 0,
        deviation_us: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_whole_and_named() {
        for family in Family::ALL {
            let made = family.generator(1, 10);
            made.overlay().check().unwrap();
            assert_eq!(made.recipes.len(), made.overlay().links.len());
            assert_eq!(Family::from_name(family.name()), Some(family));
        }
        let sessions = |family: Family| family.generator(1, 1).overlay().sessions.len();
        assert_eq!(sessions(Family::T1), 25);
        assert_eq!(sessions(Family::T3), 25);
        assert_eq!(sessions(Family::T5(true)), 15);
    }

    #[test]
    fn a_session_s_links_are_the_same_alone_and_among_all() {
        let made = Family::T2(4).generator(3, 200);
        let links = made.overlay().session_links(7).unwrap();
        let (mut all, mut own) = (made.sources(), made.sources_of(&links));
        let (mut whole, mut part) = (Columns::new(all.len()), Columns::new(own.len()));
        whole.generate(&mut all, 200);
        part.generate(&mut own, 200);
        for (place, number) in links.iter().enumerate() {
            assert_eq!(part.link(place), whole.link(*number));
        }
    }

    #[test]
    fn what_is_known_beforehand_is_near_what_happens() {
        let made = Family::T4(9).generator(2, 1_000);
        let mut columns = Columns::new(9);
        columns.generate(&mut made.sources(), 1_000);
        for (link, delays) in made.overlay().links.iter().zip(columns.links()) {
            let mean = delays.iter().map(|d| f64::from(*d)).sum::<f64>() / 1_000.0;
            assert!(
                (mean - f64::from(link.mean_us)).abs() < 4_000.0,
                "{mean} {link:?}"
            );
        }
    }
}
