//! Figure 14, Tables III and IV: how well end-to-end latency is predicted.

use sangam_route::Method;
use sangam_route::predictor::{Learner, Predictor, Sample, Score, fit_linear, split};

use super::page::{Figure, Line, Section, Table, thin};
use super::{Experiment, Unit};
use crate::replay::{Entry, Plan, Replay, Roster, Watched};
use crate::trace::{CHUNK_ROWS, Columns, TraceError};

/// The paper's figure 14.
const PAIR: &str = "CapeTown>Jakarta";
/// Packets until a release has been reported: half a second, about a round trip.
const REPORTED_AFTER: usize = 50;
/// The paper's collected set.
const COLLECTED: usize = 356_186;
/// Times that the network goes over it.
const EPOCHS: u32 = 5;

/// Scores of the ways to predict.
#[derive(Clone, Debug, Default)]
pub struct Predictions {
    /// Where: a family's name and a session's.
    pub place: [String; 2],
    /// Of predictions before each packet, from what was last heard: the network trained online,
    /// linear regression, and the plain rule.
    pub live: [Score; 3],
    /// Relative errors of the network trained online, in percent, sorted.
    pub errors: Vec<f32>,
    /// Mean latency in ms.
    pub mean_ms: f64,
}

/// Runs sessions with VCRoute and judges predictors on what its packets met.
///
/// # Errors
/// [`TraceError::Overlay`] if a family lacks its sessions.
pub fn prediction(
    experiment: &Experiment,
    packets: u64,
    note: &mut dyn FnMut(&str),
) -> Result<(Section, Vec<Predictions>, [Score; 3]), TraceError> {
    let lone = experiment.name == "fig14";
    let (mut all, mut collected) = (Vec::new(), Vec::new());
    for family in experiment.families {
        for unit in Unit::all(*family, 1) {
            let made = family.generator(unit.seed, packets);
            let session = made.overlay().session_name(unit.session);
            if lone && session != PAIR {
                continue;
            }
            note(&format!("{} {session}", family.name()));
            let watched = watch(&unit, packets)?;
            all.push(judge([family.name().to_owned(), session], &watched));
            collected.extend(watched.into_iter().map(|packet| packet.sample));
        }
    }
    let fixed = if lone {
        [Score::default(); 3]
    } else {
        on_a_set(&mut collected)
    };
    let section = if lone {
        errors(&all)
    } else {
        tables(&all, &fixed)
    };
    Ok((section, all, fixed))
}

/// What the packets of VCRoute met.
fn watch(unit: &Unit, packets: u64) -> Result<Vec<Watched>, TraceError> {
    let roster = Roster {
        name: "prediction",
        entries: vec![Entry::plain(Method::VcRoute, Vec::new())],
    };
    let made = unit.family.generator(unit.seed, packets);
    let links = made.overlay().session_links(unit.session)?;
    let mut sources = made.sources_of(&links);
    let mut columns = Columns::new(links.len());
    let plan = Plan::study(packets, unit.seed, || 0);
    let mut replay = Replay::new(made.overlay(), unit.session, &roster, plan)?;
    replay.watch();
    let mut left = packets;
    while left > 0 {
        let rows = left.min(CHUNK_ROWS as u64);
        columns.generate(&mut sources, rows as usize);
        replay.chunk(&columns);
        left -= rows;
    }
    let mut watched = replay.watched().pop().unwrap_or_default();
    watched.drain(..(plan.warm_up as usize).min(watched.len()));
    Ok(watched)
}

/// Each packet is predicted from what was known when it left; what became of it is learnt later.
fn judge(place: [String; 2], watched: &[Watched]) -> Predictions {
    let mut predictors = [Predictor::online(1), Predictor::linear(), Predictor::Rule];
    let mut found = Predictions {
        place,
        ..Predictions::default()
    };
    let mut sum = 0.0;
    for (number, packet) in watched.iter().enumerate() {
        let actual = packet.sample.end_to_end_ms;
        sum += f64::from(actual);
        for (which, (predictor, score)) in predictors.iter_mut().zip(&mut found.live).enumerate() {
            let predicted = predictor.predict(&packet.known);
            score.add(predicted, actual);
            if which == 0 {
                let error = 100.0 * (predicted - actual).abs() / actual.max(0.1);
                found.errors.push(error);
            }
            if let Some(earlier) = number.checked_sub(REPORTED_AFTER) {
                let Sample {
                    state,
                    end_to_end_ms,
                } = watched[earlier].sample;
                predictor.learn(&state, end_to_end_ms);
            }
        }
    }
    found.errors.sort_by(f32::total_cmp);
    found.mean_ms = sum / watched.len().max(1) as f64;
    found
}

/// The paper's way: a collected set, four fifths to train on and one to test.
fn on_a_set(collected: &mut [Sample]) -> [Score; 3] {
    let (kept, _) = split(collected, 1);
    let mut kept: Vec<Sample> = kept.iter().take(COLLECTED).copied().collect();
    let (train, test) = split(&mut kept, 2);
    let network = Predictor::Trained(Box::new(Learner::fit(train, EPOCHS, 1)));
    let linear = Predictor::Linear(fit_linear(train));
    [&network, &linear, &Predictor::Rule].map(|predictor| Score::of(predictor, test))
}

fn errors(all: &[Predictions]) -> Section {
    let columns = ["trace", "mean latency ms", "within 10 %", "RMSE ms", "R2"];
    let mut table = Table::new("fig14", PAIR, &columns);
    let mut figure = Figure {
        name: "fig14".to_owned(),
        title: format!("{PAIR}: relative error of predictions"),
        x: "relative error, %".to_owned(),
        y: "% of packets".to_owned(),
        ..Figure::default()
    };
    for found in all {
        let score = &found.live[0];
        table.rows.push(vec![
            found.place[0].clone(),
            format!("{:.1}", found.mean_ms),
            format!("{:.1} %", 100.0 * score.within_tenth()),
            format!("{:.1}", score.rmse_ms()),
            format!("{:.3}", score.r2()),
        ]);
        let count = found.errors.len().max(1) as f64;
        let points = found.errors.iter().enumerate();
        let points = points.map(|(n, error)| (f64::from(*error), 100.0 * (n + 1) as f64 / count));
        let points = points.take_while(|point| point.1 <= 99.0).collect();
        figure.lines.push(Line {
            label: found.place[0].clone(),
            points: thin(points, 200),
        });
    }
    Section {
        title: "Figure 14: errors of predicted latency".to_owned(),
        words: vec![
            "Each packet of VCRoute is predicted when it leaves, from what was last heard of its \
             path, by the network that is trained while it is used. The paper: over 80 % of \
             predictions between Cape Town and Jakarta are within 10 %."
                .to_owned(),
        ],
        figures: vec![figure],
        tables: vec![table],
    }
}

fn tables(all: &[Predictions], fixed: &[Score; 3]) -> Section {
    let columns = [
        "trace",
        "session",
        "mean latency ms",
        "network: RMSE ms",
        "network: R2",
        "network: within 10 %",
        "linear: RMSE ms",
        "rule: RMSE ms",
    ];
    let mut live = Table::new(
        "table3-4",
        "Predicted before each packet, every session",
        &columns,
    );
    for found in all {
        let [network, linear, rule] = &found.live;
        let mut row = found.place.to_vec();
        row.push(format!("{:.1}", found.mean_ms));
        row.push(format!("{:.2}", network.rmse_ms()));
        row.push(format!("{:.3}", network.r2()));
        row.push(format!("{:.1} %", 100.0 * network.within_tenth()));
        row.push(format!("{:.2}", linear.rmse_ms()));
        row.push(format!("{:.2}", rule.rmse_ms()));
        live.rows.push(row);
    }
    let columns = ["predictor", "RMSE ms", "R2", "within 10 %"];
    let mut set = Table::new(
        "table3-4-set",
        "A collected set, 80 to train, 20 to test",
        &columns,
    );
    for (name, score) in ["network", "linear regression", "transit + lag"]
        .iter()
        .zip(fixed)
    {
        set.rows.push(vec![
            (*name).to_owned(),
            format!("{:.2}", score.rmse_ms()),
            format!("{:.3}", score.r2()),
            format!("{:.1} %", 100.0 * score.within_tenth()),
        ]);
    }
    Section {
        title: "Tables III and IV: errors of predicted latency".to_owned(),
        words: vec![
            "The upper table predicts each packet of VCRoute when it leaves, from what was last \
             heard of its path, and learns from it later. The lower one is the paper's way: \
             packets of all sessions collected, four fifths to train on, one to test; a packet's \
             own transit latency and jitter are the input. The paper found an RMSE of 43.6 ms and \
             an R2 of 0.985."
                .to_owned(),
        ],
        figures: Vec::new(),
        tables: vec![set, live],
    }
}
