//! Which package may use which: the plan of the house, as a table.
//!
//! Tests are looser: a dev-dependency may point at any package, as a core crate's test may want
//! the simulator. No arrows of either kind may form a circle.

use std::collections::BTreeSet;

use super::line_where;
use crate::files::Tree;
use crate::finding::Finding;
use crate::workspace::{Dependency, Package, Workspace};

/// Folder, and the folders it may use. `x/*` is every folder of x; all lines that fit are joined.
const ARROWS: [(&str, &[&str]); 20] = [
    ("core/*", &["core/model"]),
    ("core/broker", &["core/wire", "core/route"]),
    ("core/link", &["core/wire"]),
    ("core/reliable", &["core/wire"]),
    ("core/film", &["core/wire"]),
    ("io", &["core/model", "core/wire", "core/link"]),
    ("node", &["io", "core/*"]),
    ("client", &["io", "core/*"]),
    ("gateway/*", &["client", "io", "core/*"]),
    ("gateway/rtsp", &["archive"]),
    ("media", &["client", "core/*"]),
    ("archive", &["client", "io", "core/*"]),
    ("control", &["client", "core/*"]),
    ("control/xpath", &["control"]),
    (
        "app",
        &[
            "core/*",
            "io",
            "node",
            "client",
            "gateway/*",
            "archive",
            "control",
        ],
    ),
    ("lab/sim", &["core/*"]),
    ("lab/wasm", &["core/*"]),
    ("lab/bench", &["lab/emulator", "client", "io", "core/*"]),
    ("lab/emulator", &["client", "io", "core/*"]),
    ("xtask", &[]),
];

/// Libraries that only some folders may use: the start of the name, and the folders.
const KEPT: [(&str, &[&str]); 4] = [
    ("gstreamer", &["media"]),
    ("axum", &["app", "control", "gateway/*"]),
    (
        "tokio",
        &["app", "archive", "control", "gateway/*", "lab/bench"],
    ),
    ("libc", &["io"]),
];

pub(crate) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in workspace.packages() {
        let manifest = package.manifest();
        let text = tree.text(&manifest).unwrap_or_default();
        let mut add =
            |line, message| findings.push(Finding::new("arrows", &manifest, line, message));
        if !ARROWS.iter().any(|(from, _)| fits(from, &package.folder)) {
            let message =
                "a folder without arrows: add it to the table in xtask/src/rules/arrows.rs";
            add(1, message.to_owned());
            continue;
        }
        for dependency in package.dependencies.iter().filter(|d| !d.dev) {
            if let Some(message) = breach(package, dependency) {
                add(
                    line_where(text, |line| line.starts_with(&dependency.name)),
                    message,
                );
            }
        }
    }
    findings.extend(circles(workspace));
    findings
}

fn breach(package: &Package, dependency: &Dependency) -> Option<String> {
    let from = &package.folder;
    if let Some(to) = &dependency.folder {
        let fitting = ARROWS.iter().filter(|(folder, _)| fits(folder, from));
        let allowed: Vec<&str> = fitting.flat_map(|(_, to)| to.iter().copied()).collect();
        let message = format!("{from} may not use {to}, only: {}", allowed.join(", "));
        return (!allowed.iter().any(|folder| fits(folder, to))).then_some(message);
    }
    let (name, kept) = KEPT
        .iter()
        .find(|(name, _)| dependency.name.starts_with(name))?;
    let message = format!(
        "{from} may not use {name}, only these may: {}",
        kept.join(", ")
    );
    (!kept.iter().any(|folder| fits(folder, from))).then_some(message)
}

fn fits(pattern: &str, folder: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(parent) => folder
            .strip_prefix(parent)
            .is_some_and(|name| !name.contains('/')),
        None => pattern == folder,
    }
}

fn circles(workspace: &Workspace) -> Vec<Finding> {
    let mut done = BTreeSet::new();
    let mut findings = Vec::new();
    for package in workspace.packages() {
        let mut way = Vec::new();
        if let Some(circle) = walk(workspace, package, &mut way, &mut done) {
            let message =
                format!("packages in a circle: {circle}; move what both need further down");
            findings.push(Finding::new("circle", &package.manifest(), 1, message));
        }
    }
    findings
}

fn walk<'a>(
    workspace: &'a Workspace,
    package: &'a Package,
    way: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Option<String> {
    if let Some(start) = way.iter().position(|folder| *folder == package.folder) {
        way.push(&package.folder);
        return Some(way[start..].join(" -> "));
    }
    if !done.insert(&package.folder) {
        return None;
    }
    way.push(&package.folder);
    let used = package
        .dependencies
        .iter()
        .filter_map(|d| d.folder.as_deref());
    for next in used
        .filter(|next| *next != package.folder)
        .filter_map(|f| workspace.package(f))
    {
        if let Some(circle) = walk(workspace, next, way, done) {
            return Some(circle);
        }
    }
    way.pop();
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(lines: &str) -> Vec<String> {
        check(&Tree::from([]), &Workspace::sample(lines))
            .into_iter()
            .map(|f| f.message)
            .collect()
    }

    #[test]
    fn arrows_of_the_plan_pass() {
        let lines = "core/model:\ncore/wire: core/model\ncore/route: core/model\n\
                     core/broker: core/model core/wire core/route\nio: core/wire libc\n\
                     node: io core/broker\nclient: io\napp: node client tokio\n\
                     lab/bench: client io\nxtask: serde_json\n";

        assert_eq!(messages(lines), Vec::<String>::new());
    }

    #[test]
    fn arrows_against_the_plan_are_found() {
        let lines = "core/model:\ncore/wire: io\nio:\nnode:\nlab/bench: node\napp: lab/bench\n";

        let found = messages(lines);

        let starts = [
            "core/wire may not use io",
            "lab/bench may not",
            "app may not use lab/bench",
        ];
        assert_eq!(found.len(), starts.len());
        assert!(
            starts
                .iter()
                .zip(&found)
                .all(|(start, found)| found.starts_with(start))
        );
    }

    #[test]
    fn a_dev_dependency_may_point_anywhere() {
        assert_eq!(
            messages("core/wire: dev:io dev:tokio\nio:\n"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn libraries_stay_where_they_belong() {
        let found = messages("node: tokio-util\napp: tokio axum\ncore/wire: libc\n");

        assert_eq!(found.len(), 2);
        assert!(found[0].starts_with("node may not use tokio"));
        assert!(found[1].starts_with("core/wire may not use libc"));
    }

    #[test]
    fn a_new_folder_needs_its_line() {
        assert!(messages("orchestra:\n")[0].starts_with("a folder without arrows"));
    }

    #[test]
    fn a_circle_is_found_even_through_tests() {
        let found = messages("core/model: dev:io\ncore/wire: core/model\nio: core/wire\n");

        let circle = "packages in a circle: core/model -> io -> core/wire -> core/model;";
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with(circle), "{found:?}");
    }

    #[test]
    fn a_finding_names_the_line_of_the_manifest() {
        let tree = Tree::from([(
            "core/wire/Cargo.toml",
            "[dependencies]\n\nio.workspace = true\n",
        )]);

        let found = check(&tree, &Workspace::sample("core/wire: io\nio:\n"));

        assert_eq!(
            (&*found[0].path, found[0].line),
            ("core/wire/Cargo.toml", 3)
        );
    }
}
