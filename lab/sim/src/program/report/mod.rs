//! The report: a page that needs nothing else, and its pictures and tables as files.

mod machine;
mod page;
mod plot;

use std::collections::BTreeMap;

use sangam_sim::study::{
    Claim, Evidence, Experiment, Part, Predictions, Results, Section, Unit, Verdict, claims,
    networks, prediction, sections, series,
};
use sangam_sim::trace::Family;
use serde_json::{Value, json};

use super::run::{Task, clock};
use super::store::Store;
use super::{Failure, note};

/// Packets over which predictions are judged: more change nothing, and all are kept.
const PREDICTED_MAX: u64 = 60_000;
/// Moments over which networks are described.
const DESCRIBED_MAX: u64 = 60_000;

/// What is told of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// How much was run, and where.
    pub(crate) facts: Vec<(String, String)>,
    /// What became of each claim.
    pub(crate) claims: Vec<Claim>,
    /// Chapters in order.
    pub(crate) sections: Vec<Section>,
}

/// The report of everything in a folder.
///
/// # Errors
/// If results are missing that the run says it has.
pub(crate) fn of(store: &Store) -> Result<Report, Failure> {
    let experiments = store.experiments();
    let mut chapters: BTreeMap<usize, Vec<Section>> = BTreeMap::new();
    let mut report = Report {
        facts: machine::facts(store),
        ..Report::default()
    };
    let mut add =
        |place: usize, more: Vec<Section>| chapters.entry(place).or_default().extend(more);
    for roster in ["study", "ablation"] {
        for family in Family::ALL {
            let used: Vec<(usize, &Experiment)> = experiments
                .iter()
                .enumerate()
                .filter(|(_, one)| one.families.contains(&family))
                .filter(|(_, one)| one.roster().is_some_and(|r| r.name == roster))
                .collect();
            let Some((_, first)) = used.first() else {
                continue;
            };
            note(&format!("reading {roster} {}", family.name()));
            let Some(results) = load(store, family, first) else {
                continue;
            };
            for (place, one) in used {
                add(place, sections(one, &[&results]));
            }
            if roster == "study" {
                report.weigh(&Evidence {
                    results: &[&results],
                    predictions: &[],
                    collected: None,
                });
            }
        }
    }
    for (place, one) in experiments.iter().enumerate() {
        match one.part {
            Part::Networks => {
                let rows = store.packets().min(DESCRIBED_MAX);
                add(place, vec![networks(one.families, rows)]);
            }
            Part::Series => {
                let section = series(one.families[0], store.packets(), clock);
                add(
                    place,
                    vec![section.map_err(|error| Failure(error.to_string()))?],
                );
            }
            Part::Predictions => add(place, vec![report.predict(one, store)?]),
            Part::Sessions | Part::Ablation => {}
        }
    }
    report.sections = chapters.into_values().flatten().collect();
    Ok(report)
}

/// All sessions of a family that were run; none if it was left out.
fn load(store: &Store, family: Family, experiment: &Experiment) -> Option<Results> {
    let roster = experiment.roster()?;
    let made = family.generator(1, 1);
    let overlay = made.overlay();
    let names = (0..overlay.sessions.len()).map(|session| {
        let links = overlay
            .session_links(session)
            .map_or(0, |links| links.len());
        (overlay.session_name(session), links)
    });
    let names: Vec<(String, usize)> = names.collect();
    let mut results = Results::new(family.name(), family.about(), roster.clone(), &names);
    results.links = overlay.links.len();
    for unit in Unit::all(family, store.seeds()) {
        let task = Task {
            unit,
            roster: roster.clone(),
        };
        // A run with fewer seeds may have been noted before one with more was stopped.
        if let Some(outcome) = store.get(&task) {
            results.add(unit.session, outcome);
        }
    }
    results.finish();
    (!results.sessions.is_empty()).then_some(results)
}

impl Report {
    /// The report of a trace that somebody brought.
    pub(crate) fn of_one(results: &Results, ours: impl Iterator<Item = Experiment>) -> Self {
        Self {
            sections: ours.flat_map(|one| sections(&one, &[results])).collect(),
            ..Self::default()
        }
    }

    /// Adds what evidence says of each claim.
    fn weigh(&mut self, evidence: &Evidence<'_>) {
        let fresh = claims(evidence);
        if self.claims.is_empty() {
            self.claims = fresh;
            return;
        }
        for (claim, more) in self.claims.iter_mut().zip(fresh) {
            claim.verdict = match (claim.verdict, more.verdict) {
                (Verdict::Open, other) | (other, Verdict::Open) => other,
                (one, other) if one == other => one,
                _ => Verdict::Partly,
            };
            if !claim.found.is_empty() && !more.found.is_empty() {
                claim.found += "; ";
            }
            claim.found += &more.found;
        }
    }

    fn predict(&mut self, experiment: &Experiment, store: &Store) -> Result<Section, Failure> {
        let packets = store.packets().min(PREDICTED_MAX);
        let mut say = |text: &str| note(&format!("predicting {text}"));
        let found = prediction(experiment, packets, &mut say);
        let (section, mut live, set) = found.map_err(|error| Failure(error.to_string()))?;
        let lone = experiment.name == "fig14";
        // Each of both experiments is evidence for a claim of its own.
        if !lone {
            live = Vec::<Predictions>::new();
        }
        self.weigh(&Evidence {
            results: &[],
            predictions: &live,
            collected: (!lone).then_some(&set),
        });
        Ok(section)
    }

    /// Writes page, pictures and tables.
    ///
    /// # Errors
    /// If that fails.
    pub(crate) fn write(&self, store: &Store) -> Result<(), Failure> {
        for section in &self.sections {
            for figure in &section.figures {
                let picture = plot::draw(figure)?;
                store.write(&format!("figures/{}.svg", figure.name), picture.as_bytes())?;
            }
            for table in &section.tables {
                store.write(
                    &format!("tables/{}.csv", table.name),
                    table.to_csv().as_bytes(),
                )?;
            }
        }
        let json = format!("{:#}\n", self.to_json());
        store.write("report.json", json.as_bytes())?;
        store.write("index.html", page::html(self)?.as_bytes())
    }

    /// Claims and tables.
    pub(crate) fn to_json(&self) -> Value {
        let claims = self.claims.iter().map(|claim| {
            json!({
                "claim": claim.claim,
                "found": claim.found,
                "verdict": claim.verdict.to_string(),
            })
        });
        let tables = self.sections.iter().flat_map(|section| &section.tables);
        let tables = tables
            .map(|table| json!({"name": table.name, "columns": table.columns, "rows": table.rows}));
        let facts: BTreeMap<&str, &str> = self
            .facts
            .iter()
            .map(|(name, fact)| (name.as_str(), fact.as_str()))
            .collect();
        json!({
            "facts": facts,
            "claims": claims.collect::<Vec<_>>(),
            "tables": tables.collect::<Vec<_>>(),
        })
    }
}
