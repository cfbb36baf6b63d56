//! The experiments, one file each.

mod limit;

use crate::args::Options;
use crate::error::Error;
use crate::report::Report;

/// Reports by file name.
pub(crate) type Reports = Vec<(String, Report)>;

/// Something that can be measured.
pub(crate) struct Experiment {
    /// Name on the command line and in reports.
    pub(crate) name: &'static str,
    /// What it measures and whence it comes.
    pub(crate) about: &'static str,
    /// Measures.
    pub(crate) run: fn(&Options) -> Result<Reports, Error>,
    /// Whether `all` includes it.
    pub(crate) in_all: bool,
}

/// Every experiment, in the order `all` runs them.
pub(crate) const ALL: &[Experiment] = &[Experiment {
    name: "limit",
    about: "what raw sendmmsg and UDP_SEGMENT reach on this machine",
    run: limit::run,
    in_all: true,
}];

/// The experiments of these names; `all` stands for all.
///
/// # Errors
/// [`Error::Unknown`] with the first unknown name.
pub(crate) fn choose(names: &[String]) -> Result<Vec<&'static Experiment>, Error> {
    let mut chosen = Vec::new();
    for name in names {
        if name == "all" {
            chosen.extend(ALL.iter().filter(|experiment| experiment.in_all));
        } else {
            let found = ALL.iter().find(|experiment| experiment.name == name);
            chosen.push(found.ok_or_else(|| Error::Unknown(name.clone()))?);
        }
    }
    Ok(chosen)
}
