//! Puts the meeting page into the binary, if it has been built: `scripts/web.sh page`.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where Vite leaves the page, seen from this package.
const DIST: &str = "../web/app/dist";
/// What is watched until there is one.
const SOURCE: &str = "../web/app";

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let dist = root.join(DIST);
    let watched = if dist.is_dir() { DIST } else { SOURCE };
    println!("cargo::rerun-if-changed={watched}");
    let mut files = Vec::new();
    if dist.is_dir() {
        list(&dist, "", &mut files)?;
    }
    files.sort();
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let mut table = String::from("&[\n");
    for (number, (name, path)) in files.iter().enumerate() {
        // A copy, as the page may be built again while this program is.
        let copy = out.join(format!("page-{number}"));
        fs::copy(path, &copy)?;
        table += &format!("    ({name:?}, include_bytes!({:?})),\n", copy.display());
    }
    table += "]\n";
    fs::write(out.join("page.rs"), table)
}

/// Every file of a folder, with its name below it.
fn list(folder: &Path, prefix: &str, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            list(&entry.path(), &format!("{name}/"), files)?;
        } else {
            files.push((name, entry.path()));
        }
    }
    Ok(())
}
