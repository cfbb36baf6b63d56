//! Where log lines go: standard error, as text for people or JSON for machines.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::cli::LogFormat;

/// Starts logging. Text on a terminal and JSON elsewhere unless `format` says otherwise; `level`
/// is a level or a filter such as `info,sangam_node=debug`.
///
/// # Errors
/// The filter is not understood.
pub(crate) fn start(format: Option<LogFormat>, level: &str) -> Result<(), String> {
    let filter = EnvFilter::try_new(level)
        .map_err(|error| format!("--log {level:?}: {error}; try error, warn, info or debug"))?;
    let terminal = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(terminal)
        // It would be told on standard error, which is what failed, and the thread would panic.
        .log_internal_errors(false);
    match format.unwrap_or(if terminal {
        LogFormat::Text
    } else {
        LogFormat::Json
    }) {
        LogFormat::Text => builder.with_target(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}
