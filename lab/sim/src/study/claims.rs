//! What the paper and we ourselves claim, beside what was found.

mod ours;
mod paper;

use core::fmt;

use super::{Predictions, Results};
use sangam_route::predictor::Score;

/// A claim and what became of it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What is claimed, and where.
    pub claim: String,
    /// What was found.
    pub found: String,
    /// Whether it holds.
    pub verdict: Verdict,
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Holds,
    /// On some networks, or in direction but not in size.
    Partly,
    /// It does not.
    Fails,
    /// What it needs was not run.
    Open,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Holds => "holds",
            Self::Partly => "partly",
            Self::Fails => "does not hold",
            Self::Open => "not run",
        })
    }
}

/// Everything that was run.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// Families with the study's roster.
    pub results: &'a [&'a Results],
    /// Predictions session by session.
    pub predictions: &'a [Predictions],
    /// Predictions on a collected set.
    pub collected: Option<&'a [Score; 3]>,
}

/// All claims.
#[must_use]
pub fn claims(evidence: &Evidence<'_>) -> Vec<Claim> {
    let mut all = paper::claims(evidence);
    all.extend(ours::claims(evidence));
    all
}

impl<'a> Evidence<'a> {
    fn get(&self, name: &str) -> Option<&'a Results> {
        self.results
            .iter()
            .find(|results| results.name == name)
            .copied()
    }

    fn some(&self, names: &[&str]) -> Vec<&'a Results> {
        names.iter().filter_map(|name| self.get(name)).collect()
    }
}

impl Claim {
    /// A claim about several networks: `of` says of each what was found, and whether it holds.
    fn over(
        claim: &str,
        results: &[&Results],
        of: impl Fn(&Results) -> Option<(String, bool)>,
    ) -> Self {
        let found: Vec<(String, bool)> = results
            .iter()
            .filter_map(|results| {
                let (words, holds) = of(results)?;
                Some((format!("{}: {words}", results.label()), holds))
            })
            .collect();
        let holding = found.iter().filter(|(_, holds)| *holds).count();
        let verdict = match (holding, found.len()) {
            (_, 0) => Verdict::Open,
            (holding, all) if holding == all => Verdict::Holds,
            (0, _) => Verdict::Fails,
            _ => Verdict::Partly,
        };
        let words: Vec<String> = found.into_iter().map(|(words, _)| words).collect();
        Self {
            claim: claim.to_owned(),
            found: words.join("; "),
            verdict,
        }
    }
}

/// A number of each session that a pair of solutions is compared by.
fn each(
    results: &Results,
    sessions: impl Fn(&str) -> bool,
    of: impl Fn(&super::Session) -> Option<f64>,
) -> Vec<f64> {
    let chosen = results
        .sessions
        .iter()
        .filter(|session| sessions(&session.name));
    let mut values: Vec<f64> = chosen.filter_map(of).filter(|v| v.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// `4.0 to 13.1 %, median 7.2 %` of shares; nothing of none.
fn range(values: &[f64]) -> Option<String> {
    let (first, last) = (values.first()?, values.last()?);
    Some(format!(
        "{:.1} to {:.1} %, median {:.1} %",
        100.0 * first,
        100.0 * last,
        100.0 * median(values)
    ))
}

/// Of sorted values.
fn median(values: &[f64]) -> f64 {
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
