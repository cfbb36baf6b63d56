//! `wide-area`: one video meeting at four sites (Uyar & Fox, Tables 14 to 16), then what the
//! paper argues for: a broker at each site, and the publisher far from the first one.

use std::time::Duration;

use sangam_emulator::{Emulator, Quality, Site};

use super::{Reports, columns, receivers, row_span, scaled};
use crate::args::Options;
use crate::error::Error;
use crate::load::Media;
use crate::machine;
use crate::paper;
use crate::process::{Carrier, Queuing};
use crate::progress::Progress;
use crate::report::{Bound, Plot, Report, Row};
use crate::scenario::{self, Meeting, Outcome, Place, Plan, Seen, Stand, Venue, World};

/// The paper's sites and their one-way delay from the first, where the broker is, in
/// microseconds: the first row of Table 14 less Indiana's, which is the broker's own. The first
/// two are in one town.
const SITES: [(&str, u64); 5] = [
    ("CS", 0),
    ("IN", 0),
    ("NY", 11_480),
    ("FL", 11_830),
    ("UK", 54_560),
];
const FIRST: usize = 0;
const UK: usize = 4;
/// Both sites of Indiana share one broker, as they are in one town.
const WITH_BROKER: [usize; 4] = [FIRST, 2, 3, UK];
const USERS: [usize; 4] = [4, 50, 100, 150];
const SEED: u64 = 14;

/// The paper's largest loss, in percent (Table 16).
const LOSS_PERCENT_MAX: f64 = 0.11;
/// Twice one stream of 280 kb/s with its headers: what a site with a broker of its own gets.
const COPY_MBPS_MAX: f64 = 0.8;
/// Latency of a publisher's own site that has a broker, at most.
const OWN_SITE_MS_MAX: f64 = 20.0;

/// Where brokers and the publisher are.
struct Layout {
    /// As reports name it.
    name: &'static str,
    /// One at every distant site besides the first, which those dial.
    brokers_everywhere: bool,
    publisher: usize,
}

const ONE: Layout = Layout {
    name: "one broker",
    brokers_everywhere: false,
    publisher: FIRST,
};
const EACH: Layout = Layout {
    name: "a broker at each site",
    brokers_everywhere: true,
    publisher: FIRST,
};

impl Layout {
    fn with_broker(&self) -> &'static [usize] {
        match self.brokers_everywhere {
            true => &WITH_BROKER,
            false => &WITH_BROKER[..1],
        }
    }
}

/// Measures all layouts.
pub(super) fn run(options: &Options) -> Result<Reports, Error> {
    let network = network()?;
    let mut progress = Progress::new(4 * USERS.len());
    let mut measure = |report: &mut Report, layout: &Layout| {
        USERS.into_iter().try_for_each(|size| {
            let users = scaled(size, options);
            progress.at(&format!(
                "{}, {users} users at each of 4 sites",
                layout.name
            ));
            let outcome =
                scenario::run_in(&world(&network, layout), &plan(options, layout, users))?;
            rows(report, layout, (users, &outcome));
            check(report, layout, (users, &outcome));
            progress.step();
            Ok(())
        })
    };
    let title = "One video meeting at four sites, one broker and the publisher in Indiana";
    let mut one = report(title, options);
    measure(&mut one, &ONE)?;
    one.paper = paper::rows(paper::WIDE_AREA);
    let title = "The same with a broker at each distant site, linked to Indiana's";
    let mut each = report(title, options);
    measure(&mut each, &EACH)?;
    each.paper = paper::rows(paper::WIDE_AREA);
    let title = "The same with the publisher in the UK, with one broker and with one at each site";
    let mut uk = report(title, options);
    for layout in [ONE, EACH] {
        let publisher = UK;
        measure(
            &mut uk,
            &Layout {
                publisher,
                ..layout
            },
        )?;
    }
    let names = ["wide-area", "wide-area-brokers", "wide-area-uk"].map(str::to_owned);
    Ok(names.into_iter().zip([one, each, uk]).collect())
}

fn report(title: &str, options: &Options) -> Report {
    let mut report = Report::new("wide-area", title);
    report.headline.set("receivers", receivers(options).name());
    report.plot = Some(Plot {
        x: "users_per_site",
        y: "latency_last_ms",
        series: Some("site"),
    });
    report.notes = [
        "The emulator delays each way between Indiana and a site by what the first row of Table \
         14 says beyond Indiana's own latency: NY 11.48, FL 11.83, UK 54.56 ms, evenly, without \
         loss and without a limit of rate. The paper's sites had 90 to 100 Mb/s.",
        "site_mbps is what arrived at the site by the emulator's count, IP headers included.",
    ]
    .map(str::to_owned)
    .to_vec();
    report
}

/// The paper's sites; those that are far from Indiana reach each other through it.
fn network() -> Result<Emulator, Error> {
    let network = Emulator::new(&SITES.map(|(name, _)| name), SEED).map_err(Error::Network)?;
    for (from, (_, there)) in SITES.iter().enumerate() {
        for (to, (_, back)) in SITES.iter().enumerate().filter(|(to, _)| *to != from) {
            let quality = Quality::delayed(Duration::from_micros(there + back));
            let set = network.control().set(from, to, quality);
            set.map_err(Error::Network)?;
        }
    }
    Ok(network)
}

fn world(network: &Emulator, layout: &Layout) -> World {
    let sites: &[Site] = network.sites();
    let with_broker = layout.with_broker();
    let stand = |site: &usize| Stand {
        site: sites.get(*site).cloned(),
        dials: (*site != FIRST).then_some(0).into_iter().collect(),
    };
    let venue = |site: &Site| Venue {
        site: Some(site.clone()),
        broker: with_broker
            .iter()
            .position(|with| *with == site.number())
            .unwrap_or(0),
    };
    World {
        brokers: with_broker.iter().map(stand).collect(),
        places: sites.iter().map(venue).collect(),
        paths: Some(network.control().clone()),
        carrier: Carrier::Udp,
    }
}

fn plan(options: &Options, layout: &Layout, users: usize) -> Plan {
    let brokers = layout.with_broker().len();
    Plan {
        media: Media::Video,
        brokers,
        shards: options
            .shards
            .unwrap_or(if brokers == 1 { machine::cores() } else { 1 }),
        queuing: Queuing::Double,
        meetings: vec![Meeting::measured_once(
            layout.publisher,
            vec![0, users, users, users, users],
        )],
        receivers: receivers(options),
        span: row_span(options),
    }
}

fn last_at(outcome: &Outcome, site: usize) -> Option<Seen> {
    outcome.at(site, Place::Last)
}

fn mbps(outcome: &Outcome, site: usize) -> f64 {
    let bytes = outcome.carried.get(site).copied().unwrap_or_default();
    bytes as f64 * 8.0 / 1e6 / outcome.took.as_secs_f64()
}

fn rows(report: &mut Report, layout: &Layout, (users, outcome): (usize, &Outcome)) {
    for (site, (name, _)) in SITES.iter().enumerate().skip(1) {
        let Some(last) = last_at(outcome, site) else {
            continue;
        };
        let mut row = Row::default()
            .with("layout", layout.name)
            .with("publisher", SITES[layout.publisher].0)
            .with("users_per_site", users)
            .with("users", users * (SITES.len() - 1))
            .with("site", *name)
            .with("latency_last_ms", last.reception.mean_ms());
        columns::quality(&mut row, &last);
        row.set("site_mbps", mbps(outcome, site));
        if site == 1 {
            columns::cost(&mut row, outcome);
        }
        report.ours.push(row);
    }
}

/// No worse than the paper where it measured; what it argues for where it did not.
fn check(report: &mut Report, layout: &Layout, (users, outcome): (usize, &Outcome)) {
    let largest = outcome
        .among(|_| true)
        .map_or(100.0, |all| all.reception.loss_percent(all.expected));
    report.verdict.check(
        format!("{}, {users} users per site: lost in percent", layout.name),
        largest,
        Bound::AtMost(LOSS_PERCENT_MAX),
    );
    if layout.brokers_everywhere {
        let most = WITH_BROKER[1..].iter().map(|site| mbps(outcome, *site));
        report.verdict.check(
            format!("{users} users per site: Mb/s into a site with a broker"),
            most.fold(0.0, f64::max),
            Bound::AtMost(COPY_MBPS_MAX),
        );
    }
    if layout.brokers_everywhere && layout.publisher == UK {
        let mean = last_at(outcome, UK).map_or(f64::NAN, |last| last.reception.mean_ms());
        report.verdict.check(
            format!("{users} users per site: latency in the publisher's own site in ms"),
            mean,
            Bound::AtMost(OWN_SITE_MS_MAX),
        );
    }
}
