//! Programs that are built and installed with this one.

use std::path::PathBuf;

/// The program of this name beside this one; otherwise its bare name, to be looked for in PATH.
pub(crate) fn program(name: &str) -> PathBuf {
    let beside = std::env::current_exe().map(|path| path.with_file_name(name));
    beside
        .ok()
        .filter(|path| path.exists())
        .unwrap_or_else(|| name.into())
}
