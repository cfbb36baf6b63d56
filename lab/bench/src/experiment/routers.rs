//! `routers`: what a packet costs in each method of `core/route`, with all it is told of it.

use std::hint::black_box;
use std::time::Duration;

use sangam_model::Time;
use sangam_route::method::{Arrival, Feedback, Past, Probe, Report as Fate, Settings};
use sangam_route::predictor::Predictor;
use sangam_route::{Method, Paths, Router};

use super::Reports;
use crate::args::Options;
use crate::error::Error;
use crate::process::this_thread_cpu;
use crate::report::{Bound, Report, Row};

/// A packet may cost so much where nothing is learnt, and where the network is trained.
const US_PER_PACKET_MAX: (f64, f64) = (0.8, 3.0);
const PACKETS: u64 = 100_000;
/// The best of so many runs is told: the others were disturbed.
const RUNS: u64 = 5;

/// Measures every method, and those that predict with every predictor.
pub(super) fn run(_options: &Options) -> Result<Reports, Error> {
    let mut report = Report::new(
        "routers",
        "A packet's cost in each routing method, one core",
    );
    let (plain, learning) = US_PER_PACKET_MAX;
    let predictors = [
        ("rule", Predictor::Rule, plain),
        ("linear", Predictor::linear(), plain),
        ("network", Predictor::online(1), learning),
    ];
    for method in Method::ALL {
        // Central methods predict, all but Via.
        let kinds = if method.central() && method != Method::Via {
            &predictors[..]
        } else {
            &predictors[..1]
        };
        for (predictor, settings, max) in kinds {
            let runs = (0..RUNS).map(|_| us_per_packet(method, settings));
            let us = runs.fold(f64::INFINITY, f64::min);
            let row = Row::default()
                .with("method", method.name())
                .with("predictor", *predictor)
                .with("us_per_packet", us);
            report.ours.push(row);
            let name = format!("us per packet, {}, {predictor}", method.name());
            report.verdict.check(name, us, Bound::AtMost(*max));
        }
    }
    report.notes.push(format!(
        "{PACKETS} packets of 10 ms over 17 paths that all stay in play; choice, arrival and \
         release of each, and two probes a second of 21 links, in the time; best of {RUNS} runs"
    ));
    Ok(vec![("routers".to_owned(), report)])
}

fn us_per_packet(method: Method, predictor: &Predictor) -> f64 {
    // So vague that no path is left out.
    let past = Past {
        mean_ms: 100.0,
        deviation_ms: 30.0,
        samples: 10,
    };
    let paths = Paths::overlay(4);
    let settings = Settings {
        history: vec![past; paths.len()],
        predictor: predictor.clone(),
        ..Settings::default()
    };
    let mut router = Router::new(method, paths, &settings);
    let begin = this_thread_cpu();
    (0..PACKETS).for_each(|number| packet(&mut router, number));
    (this_thread_cpu() - begin).as_secs_f64() * 1e6 / PACKETS as f64
}

fn packet(router: &mut Router, number: u64) {
    let now = Time::from_millis(10 * number);
    let choice = router.choose(now, |path| Some(i64::from(path)));
    let path = black_box(choice).path;
    let transit_us = 100_000 + (number * 7_919 % 20_000) as i64 + 3_000 * i64::from(path);
    let arrival = Arrival {
        transit_us,
        jitter_us: transit_us % 17_000,
        lag_us: 20_000,
    };
    let released = Fate::Released {
        arrival,
        end_to_end_us: transit_us + 20_000,
    };
    for report in [Fate::Arrived(arrival), released] {
        let sent = now;
        router.feedback(
            now + Duration::from_millis(200),
            &Feedback { path, sent, report },
        );
    }
    // 42 probes in 100 packets.
    if number * 42 / 100 != (number + 1) * 42 / 100 {
        let link = (number * 42 / 100 % 21) as u16;
        let delay_us = Some(50_000 + transit_us % 977);
        let sent = now;
        router.probe(
            now,
            &Probe {
                link,
                sent,
                delay_us,
            },
        );
    }
}
