//! `sangam config`: check, show, example.

use std::io;

use serde_json::json;

use crate::cli::{ConfigCommand, ConfigFile};
use crate::config::{Config, ConfigError, EXAMPLE, advice, load};
use crate::exit::{Exit, Failure};
use crate::output;

/// In place of a secret.
const HIDDEN: &str = "(set, not shown)";

/// Runs one of the subcommands.
pub(super) fn run(command: &ConfigCommand, json: bool) -> Result<(), Failure> {
    match command {
        ConfigCommand::Validate(file) => validate(file, json),
        ConfigCommand::Show(file) => show(file, json),
        ConfigCommand::Example => {
            if json {
                output::json_line(&Config::default());
            } else {
                output::text(EXAMPLE);
            }
            Ok(())
        }
    }
}

/// The configuration of a file and of this process' variables over `base`.
///
/// # Errors
/// Everything that is wrong with it.
pub(super) fn read(file: &ConfigFile, base: &Config) -> Result<Config, Failure> {
    load(file.config.as_deref(), std::env::vars(), base).map_err(|error| failure(&error))
}

/// The failure a wrong configuration ends with.
pub(super) fn failure(error: &ConfigError) -> Failure {
    Failure::new(Exit::Configuration, error.to_string())
        .hint("`sangam config example` explains every key")
}

fn validate(file: &ConfigFile, json: bool) -> Result<(), Failure> {
    let found = load(file.config.as_deref(), std::env::vars(), &Config::default());
    if json {
        let problems = match &found {
            Ok(_) => Vec::new(),
            Err(ConfigError(problems)) => problems.clone(),
        };
        let problems: Vec<_> = problems
            .iter()
            .map(|problem| json!({ "place": problem.place, "message": problem.message }))
            .collect();
        output::json_line(&json!({ "valid": found.is_ok(), "problems": problems }));
    }
    let config = found.map_err(|error| failure(&error))?;
    if !json {
        let name = file.config.as_ref().map_or_else(
            || "the configuration (defaults and variables)".to_owned(),
            |path| path.display().to_string(),
        );
        output::line(&format!("{name} is valid"));
        if let Some(advice) = advice(&config) {
            output::line(&format!("but {advice}"));
        }
    }
    Ok(())
}

fn show(file: &ConfigFile, json: bool) -> Result<(), Failure> {
    let mut config = read(file, &Config::default())?;
    // Shown configurations end up in tickets and chats.
    let secrets = [
        &mut config.api.token,
        &mut config.sessions.webhook_secret,
        &mut config.sessions.etcd_password,
        &mut config.login.client_secret,
        &mut config.webrtc.turn_secret,
    ];
    for secret in secrets.into_iter().flatten() {
        HIDDEN.clone_into(secret);
    }
    config
        .auth
        .keys
        .iter_mut()
        .for_each(|key| key.redact(HIDDEN));
    if json {
        output::json_line(&config);
        return Ok(());
    }
    let text = toml::to_string_pretty(&config).map_err(io::Error::other);
    output::text(&text.map_err(crate::exit::io("cannot show the configuration"))?);
    Ok(())
}
