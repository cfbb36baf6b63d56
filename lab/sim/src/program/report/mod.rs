//! The report: a page that needs nothing else, and its pictures and tables as files.

mod machine;
mod page;
mod plot;

use std::collections::BTreeMap;

use sangam_sim::replay::Roster;
use sangam_sim::study::{
    Claim, Evidence, Experiment, Part, Predictions, Results, Section, Unit, Verdict, claims,
    networks, prediction, sections, series,
};
use sangam_sim::trace::Family;
use serde_json::{Value, json};

use super::replay::{Brought, sessions as sessions_of};
use super::run::clock;
use super::store::{Place, Store};
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
    /// What the experiments are of and is not there, not whole, with words for it.
    pub(crate) lacking: Vec<(String, String)>,
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
            let what = format!("{roster} {}", family.name());
            note(&format!("reading {what}"));
            let Some(results) = load(store, family, first) else {
                report.lack(&what, "none of its sessions has been run".to_owned());
                continue;
            };
            if let Some(words) = results.lacking() {
                report.lack(&what, words);
            }
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
    if let Some(brought) = store.brought() {
        report.replayed(brought, store);
    }
    Ok(report)
}

/// All sessions of a family that were run; none if it was left out.
fn load(store: &Store, family: Family, experiment: &Experiment) -> Option<Results> {
    let roster = experiment.roster()?;
    let made = family.generator(1, 1);
    let overlay = made.overlay();
    let names = sessions_of(overlay);
    let mut results = Results::new(family.name(), family.about(), roster.clone(), &names);
    results.links = overlay.links.len();
    let units = Unit::all(family, store.seeds());
    results.wanted = units.len() as u64;
    for unit in units {
        // A run with fewer seeds may have been noted before one with more was stopped.
        if let Some(outcome) = store.get(&Place::made(&unit, &roster)) {
            results.add(unit.session, outcome);
        }
    }
    results.finish();
    (!results.sessions.is_empty()).then_some(results)
}

impl Report {
    /// The chapters of a trace that somebody brought.
    fn replayed(&mut self, brought: &Brought, store: &Store) {
        let (roster, about) = (Roster::replay(), "a trace that was brought");
        let sessions = &brought.sessions;
        let mut results = Results::new(&brought.name, about, roster.clone(), sessions);
        results.links = brought.links;
        results.wanted = sessions.len() as u64;
        for session in 0..sessions.len() {
            if let Some(outcome) = store.get(&Place::brought(brought.hash, session, &roster)) {
                results.add(session, outcome);
            }
        }
        results.finish();
        if let Some(words) = results.lacking() {
            self.lack(&format!("replay {}", brought.name), words);
        }
        let all = Experiment::ALL.into_iter();
        let ours = all.filter(|one| one.name == "ours" && one.part == Part::Sessions);
        let found = ours.flat_map(|one| sections(&one, &[&results]));
        self.sections.extend(found);
    }

    /// Says what is not there.
    fn lack(&mut self, what: &str, words: String) {
        note(&format!("{what}: {words}"));
        self.lacking.push((what.to_owned(), words));
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
        let lacking = self.lacking.iter();
        let lacking = lacking.map(|(what, words)| json!({"what": what, "found": words}));
        json!({
            "facts": facts,
            "lacking": lacking.collect::<Vec<_>>(),
            "claims": claims.collect::<Vec<_>>(),
            "tables": tables.collect::<Vec<_>>(),
        })
    }
}
