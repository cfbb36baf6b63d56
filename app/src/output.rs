//! Standard output: text for people, JSON for scripts.

use std::io::{self, Write};

use serde::Serialize;

/// Prints one line of JSON and flushes it, so that a pipe's reader sees it at once. A reader that
/// has gone away is no error: the command goes on for its other effects.
pub(crate) fn json_line(value: &impl Serialize) {
    let mut out = io::stdout().lock();
    let done = serde_json::to_writer(&mut out, value)
        .map_err(io::Error::from)
        .and_then(|()| writeln!(out))
        .and_then(|()| out.flush());
    if let Err(error) = done {
        tracing::debug!(%error, "standard output is closed");
    }
}

/// Prints text and flushes it; a closed pipe is no error.
pub(crate) fn text(text: &str) {
    let mut out = io::stdout().lock();
    let done = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = done {
        tracing::debug!(%error, "standard output is closed");
    }
}

/// Prints a line of text; see [`text`].
pub(crate) fn line(line: &str) {
    text(&format!("{line}\n"));
}
