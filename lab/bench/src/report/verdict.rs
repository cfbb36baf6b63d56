//! What was to be reached, and whether it was.

use serde::Serialize;

/// A bound on a measured value.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    /// The value must not be greater.
    AtMost(f64),
    /// The value must not be smaller.
    AtLeast(f64),
}

/// One measured value against its bound.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Check {
    /// What was measured, with its unit.
    pub(crate) name: String,
    /// The value.
    pub(crate) value: f64,
    /// The bound.
    #[serde(flatten)]
    pub(crate) bound: Bound,
    /// Whether the bound holds.
    pub(crate) passed: bool,
}

/// All checks of an experiment.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Verdict {
    /// Whether everything was measured and every check passed; true without checks.
    pub(crate) passed: bool,
    /// Each check.
    pub(crate) checks: Vec<Check>,
    /// The outcome in plain words.
    pub(crate) text: String,
    /// Why what was to be measured was not.
    #[serde(skip)]
    unmeasured: Option<String>,
}

impl Bound {
    /// Whether `value` keeps to it. A value that is no number never does.
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(bound) => value <= bound,
            Self::AtLeast(bound) => value >= bound,
        }
    }

    /// For example `at most 1.25`.
    pub(crate) fn to_text(self) -> String {
        match self {
            Self::AtMost(bound) => format!("at most {bound}"),
            Self::AtLeast(bound) => format!("at least {bound}"),
        }
    }
}

impl Verdict {
    /// Adds a check and keeps the outcome up to date.
    pub(crate) fn check(&mut self, name: impl Into<String>, value: f64, bound: Bound) {
        let passed = bound.holds(value);
        self.checks.push(Check {
            name: name.into(),
            value,
            bound,
            passed,
        });
        self.conclude();
    }

    /// Says why what was to be measured was not: whatever the checks say, that is no pass.
    pub(crate) fn not_measured(&mut self, why: impl Into<String>) {
        self.unmeasured = Some(why.into());
        self.conclude();
    }

    /// Brings `passed` and `text` up to date; to be called once if there are no checks.
    pub(crate) fn conclude(&mut self) {
        let missed: Vec<_> = self.checks.iter().filter(|check| !check.passed).collect();
        self.passed = missed.is_empty() && self.unmeasured.is_none();
        self.text = match (self.checks.len(), missed.len()) {
            (0, _) => "measured; nothing was to be reached".to_owned(),
            (all, 0) => format!("reached: {all} of {all} checks"),
            (all, some) => {
                let names: Vec<_> = missed.iter().map(|check| check.name.as_str()).collect();
                format!("missed {some} of {all} checks: {}", names.join("; "))
            }
        };
        if let Some(why) = &self.unmeasured {
            self.text = format!("not measured: {why}; {}", self.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_missed_check_fails_the_verdict_and_is_named() {
        let mut verdict = Verdict::default();
        verdict.check("loss in percent", 0.0, Bound::AtMost(0.0));
        assert!(verdict.passed);
        verdict.check("ratio to the limit", 0.5, Bound::AtLeast(0.8));
        assert!(!verdict.passed);
        assert_eq!(verdict.text, "missed 1 of 2 checks: ratio to the limit");
    }

    #[test]
    fn what_was_not_measured_does_not_pass() {
        let mut verdict = Verdict::default();
        verdict.not_measured("there is no previous release");
        verdict.check("lost", 0.0, Bound::AtMost(0.0));
        assert!(!verdict.passed);
        let text = "not measured: there is no previous release; reached: 1 of 1 checks";
        assert_eq!(verdict.text, text);
    }

    #[test]
    fn a_value_that_could_not_be_measured_is_missed() {
        assert!(!Bound::AtMost(1.0).holds(f64::NAN));
        assert!(!Bound::AtLeast(1.0).holds(f64::NAN));
    }
}
