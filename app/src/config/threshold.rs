//! Thresholds: measures, bounds and what follows.

use std::time::Duration;

use sangam_control::monitor::threshold::{Action, Rule, Side, Subject};
use serde::{Deserialize, Serialize};

use super::Config;

/// Longest time a measure may have to stay past its bound.
const HOLD_MAX: Duration = Duration::from_secs(3_600);

/// One threshold. `sangam config example` explains the keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Threshold {
    pub(crate) measure: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) above: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) below: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) clear: Option<f64>,
    #[serde(rename = "for", default = "at_once")]
    pub(crate) hold: String,
    pub(crate) action: Action,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
}

fn at_once() -> String {
    "0s".to_owned()
}

impl Threshold {
    /// The rule it stands for.
    ///
    /// # Errors
    /// The key that is wrong, and what to write.
    pub(crate) fn rule(&self) -> Result<Rule, (&'static str, String)> {
        let subject = Subject::named(&self.measure).ok_or_else(|| {
            let names: Vec<_> = Subject::names().collect();
            let message = format!("there is no {:?}, but: {}", self.measure, names.join(", "));
            ("measure", message)
        })?;
        let (side, bound, clear) = self.bounds()?;
        let hold = span(&self.hold).filter(|hold| *hold <= HOLD_MAX);
        let hold = hold.ok_or_else(|| {
            let message = format!(
                "{:?}: write a time such as 3s or 500ms, at most 1h",
                self.hold
            );
            ("for", message)
        })?;
        let of_link = matches!(self.action, Action::RaiseWeight | Action::Invalidate);
        if of_link && !matches!(subject, Subject::Link(_)) {
            let message = "only a measure of a link says which link is meant";
            return Err(("action", message.to_owned()));
        }
        self.check_url()?;
        Ok(Rule {
            subject,
            side,
            bound,
            clear,
            hold,
            action: self.action,
            url: self.url.clone(),
        })
    }

    /// What raises and what clears it.
    fn bounds(&self) -> Result<(Side, f64, f64), (&'static str, String)> {
        let wrong = |key, message: &str| Err((key, message.to_owned()));
        let (side, key, bound) = match (self.above, self.below) {
            (Some(bound), None) => (Side::Above, "above", bound),
            (None, Some(bound)) => (Side::Below, "below", bound),
            (Some(_), Some(_)) => {
                return wrong(
                    "below",
                    "say `above` or `below`; what ends the alert is `clear`",
                );
            }
            (None, None) => return wrong("above", "say `above` or `below`"),
        };
        let clear = self.clear.unwrap_or(bound);
        if !bound.is_finite() || !clear.is_finite() {
            return wrong(key, "a bound is a number");
        }
        match side {
            Side::Above if clear > bound => {
                wrong("clear", "what clears a threshold lies at or below `above`")
            }
            Side::Below if clear < bound => {
                wrong("clear", "what clears a threshold lies at or above `below`")
            }
            _ => Ok((side, bound, clear)),
        }
    }

    fn check_url(&self) -> Result<(), (&'static str, String)> {
        match (&self.url, self.action == Action::Webhook) {
            (Some(url), true) => {
                let url = url.parse::<sangam_control::monitor::webhook::Url>();
                url.map(|_| ()).map_err(|message| ("url", message))
            }
            (None, true) => Err(("url", "a webhook needs a URL to post to".to_owned())),
            (Some(_), false) => Err(("url", "only a webhook has a URL".to_owned())),
            (None, false) => Ok(()),
        }
    }
}

impl Config {
    /// The rules of a checked configuration.
    pub(crate) fn rules(&self) -> Vec<Rule> {
        self.thresholds
            .iter()
            .filter_map(|one| one.rule().ok())
            .collect()
    }
}

/// `500ms`, `3s`, `2m` or `1h`.
fn span(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.checked_mul(60)?),
        "h" => Duration::from_secs(number.checked_mul(3_600)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threshold(text: &str) -> Threshold {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_threshold_becomes_a_rule() {
        let text = "measure = \"link.loss_ppm\"\nabove = 20000\nclear = 1e4\nfor = \"3s\"\n\
            action = \"raise-weight\"";
        let rule = threshold(text).rule().unwrap();
        assert_eq!((rule.bound, rule.clear), (20_000.0, 10_000.0));
        assert_eq!(
            (rule.hold, rule.action),
            (Duration::from_secs(3), Action::RaiseWeight)
        );
        let short = threshold("measure = \"broker.clients\"\nabove = 9\naction = \"drain\"");
        let rule = short.rule().unwrap();
        assert_eq!((rule.side, rule.clear), (Side::Above, 9.0));
        let few = "measure = \"broker.links_up\"\nbelow = 2\nclear = 3\naction = \"alert\"";
        let rule = threshold(few).rule().unwrap();
        assert_eq!((rule.side, rule.bound, rule.clear), (Side::Below, 2.0, 3.0));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_key() {
        let link = "measure = \"link.rtt_us\"\nabove = 5";
        for (text, key) in [
            (
                "measure = \"link.colour\"\nabove = 5\naction = \"alert\"".to_owned(),
                "measure",
            ),
            (format!("{link}\nbelow = 4\naction = \"alert\""), "below"),
            (format!("{link}\nclear = 6\naction = \"alert\""), "clear"),
            (
                "measure = \"link.up\"\nbelow = 1\nclear = 0\naction = \"alert\"".to_owned(),
                "clear",
            ),
            (
                "measure = \"link.up\"\naction = \"alert\"".to_owned(),
                "above",
            ),
            (format!("{link}\nfor = \"3\"\naction = \"alert\""), "for"),
            (format!("{link}\nfor = \"2h\"\naction = \"alert\""), "for"),
            (format!("{link}\naction = \"webhook\""), "url"),
            (
                format!("{link}\naction = \"webhook\"\nurl = \"ftp://x\""),
                "url",
            ),
            (
                format!("{link}\naction = \"alert\"\nurl = \"http://x\""),
                "url",
            ),
            (
                "measure = \"broker.clients\"\nabove = 5\naction = \"invalidate\"".to_owned(),
                "action",
            ),
        ] {
            assert_eq!(threshold(&text).rule().unwrap_err().0, key, "{text}");
        }
    }
}
