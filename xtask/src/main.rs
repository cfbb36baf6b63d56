//! Checks of the repository that neither the compiler nor clippy can make: `cargo xtask tidy`.
//!
//! Each rule is one file of `rules/`: a function from the tree of files, or from the packages that
//! `cargo metadata` lists, to findings. A finding names file and line, the rule, and what to do.

mod files;
mod finding;
mod rules;
mod rust;
mod workspace;

use std::path::Path;
use std::process::ExitCode;

use files::Tree;
use workspace::Workspace;

const USAGE: &str = "usage: cargo xtask tidy

  tidy    check limits, arrows between crates, documentation and links (part of `make test`)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn tidy() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask/ has a parent");
    let (tree, workspace) = match Tree::read(root).and_then(|t| Ok((t, Workspace::load(root)?))) {
        Ok(both) => both,
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::FAILURE;
        }
    };
    let findings = rules::check(&tree, &workspace);
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        println!(
            "tidy: {} files, {} packages, no findings",
            tree.len(),
            workspace.len()
        );
        ExitCode::SUCCESS
    } else {
        eprintln!("tidy: {} findings", findings.len());
        ExitCode::FAILURE
    }
}
