//! `sangam doctor`: what would trouble a broker on this machine, in plain words.

mod certificate;
mod machine;
mod network;
mod tools;

use serde::Serialize;
use serde_json::json;

use super::config;
use crate::auth::Tokens;
use crate::cli::ConfigFile;
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::output;

/// How one thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// As it should be.
    Good,
    /// It works, but not as well as it could.
    Poor,
    /// A broker will not work.
    Bad,
}

/// One thing looked at.
#[derive(Clone, Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    found: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    advice: &'static str,
}

impl Check {
    fn good(name: &'static str, found: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Good,
            found: found.into(),
            advice: "",
        }
    }

    fn poor(name: &'static str, found: impl Into<String>, advice: &'static str) -> Self {
        Self {
            name,
            state: State::Poor,
            found: found.into(),
            advice,
        }
    }

    fn bad(name: &'static str, found: impl Into<String>, advice: &'static str) -> Self {
        Self {
            name,
            state: State::Bad,
            found: found.into(),
            advice,
        }
    }
}

/// Whether clients can be told apart.
fn tokens(config: &Config) -> Check {
    match Tokens::of(&config.auth) {
        Ok(Some(tokens)) => Check::good("tokens", format!("clients need one of {tokens}")),
        Ok(None) => Check::poor(
            "tokens",
            "clients need none: everybody who reaches the broker may do everything",
            "set auth.required and auth.keys, unless everybody there is trusted",
        ),
        Err(error) => Check::poor(
            "tokens",
            error.to_string(),
            "`sangam token key` makes one; until then only --dev or --no-auth starts a broker",
        ),
    }
}

/// Looks at everything.
pub(super) fn run(file: &ConfigFile, as_json: bool) -> Result<(), Failure> {
    let (config, wrong) = match config::read(file, &Config::default()) {
        Ok(config) => (config, None),
        Err(failure) => (Config::default(), Some(failure)),
    };
    let mut checks = vec![match &wrong {
        None => Check::good("configuration", "valid"),
        Some(failure) => Check::bad(
            "configuration",
            failure.message.clone(),
            "correct it; `sangam config example` explains every key",
        ),
    }];
    checks.extend(machine::checks());
    checks.extend(network::checks(&config));
    checks.extend(certificate::checks(&config.tls));
    checks.extend(tools::checks());
    checks.push(tokens(&config));
    if as_json {
        let good = checks.iter().all(|check| check.state != State::Bad);
        output::json_line(&json!({ "ok": good, "checks": checks }));
    } else {
        checks.iter().for_each(|check| output::text(&text(check)));
    }
    let bad: Vec<_> = checks
        .iter()
        .filter(|check| check.state == State::Bad)
        .collect();
    if bad.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = bad.iter().map(|check| check.name).collect();
    let exit = if wrong.is_some() {
        Exit::Configuration
    } else {
        Exit::Failure
    };
    Err(Failure::new(
        exit,
        format!("a broker will not work here: {}", names.join(", ")),
    ))
}

fn text(check: &Check) -> String {
    let mark = match check.state {
        State::Good => "good",
        State::Poor => "poor",
        State::Bad => "BAD ",
    };
    let Check {
        name,
        found,
        advice,
        ..
    } = check;
    let advice = if advice.is_empty() {
        String::new()
    } else {
        format!("      {advice}\n")
    };
    format!("{mark}  {name}: {found}\n{advice}")
}
