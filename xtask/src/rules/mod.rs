//! The rules, one file each.

mod arrows;
mod code;
mod documented;
mod links;
mod lints;
mod paths;
mod size;
mod words;

use crate::files::Tree;
use crate::finding::Finding;
use crate::workspace::Workspace;

/// Every finding of every rule, by file and line.
pub(crate) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(size::check(tree));
    findings.extend(code::check(tree));
    findings.extend(links::check(tree));
    findings.extend(paths::check(tree));
    findings.extend(words::check(tree));
    findings.extend(arrows::check(tree, workspace));
    findings.extend(documented::check(tree, workspace));
    findings.extend(lints::check(tree, workspace));
    findings.sort();
    findings
}

/// The first line that `wanted` accepts, from 1; 1 where there is none.
fn line_where(text: &str, wanted: impl Fn(&str) -> bool) -> usize {
    text.lines()
        .position(|line| wanted(line.trim()))
        .map_or(1, |n| n + 1)
}
