//! What must be written down: each module's purpose, each crate's place, each library's reason.

use super::line_where;
use crate::files::{Tree, folder, join};
use crate::finding::Finding;
use crate::rust::Rust;
use crate::workspace::Workspace;

const MAP: &str = "ARCHITECTURE.md";
const DECISIONS: &str = "docs/adr/";

pub(crate) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let mut findings = modules(tree);
    findings.extend(code_map(tree, workspace));
    findings.extend(decisions(tree, workspace));
    findings
}

/// Crate roots and public modules start with `//!`.
fn modules(tree: &Tree) -> Vec<Finding> {
    let mut documented: Vec<String> = Vec::new();
    for (path, rust) in tree.rust() {
        if path.ends_with("src/lib.rs") || path.ends_with("src/main.rs") {
            documented.push(path.to_owned());
        }
        documented.extend(public_modules(&rust).filter_map(|name| module_file(tree, path, name)));
    }
    let bare = documented
        .iter()
        .filter(|path| !has_manual(tree.text(path).unwrap_or_default()));
    let message = "no `//!` at the start: say in a line or two what this module is for";
    bare.map(|path| Finding::new("module-doc", path, 1, message))
        .collect()
}

fn public_modules<'a>(rust: &'a Rust<'_>) -> impl Iterator<Item = &'a str> {
    let public = rust
        .words("mod")
        .filter(|&at| rust.before(at).ends_with("pub"));
    public.filter_map(|at| {
        let (name, _) = rust.code[at + 3..].split_once(';')?;
        let name = name.trim();
        (!name.contains('{')).then_some(name)
    })
}

fn module_file(tree: &Tree, parent: &str, name: &str) -> Option<String> {
    let stem = parent.trim_end_matches(".rs");
    let is_root = ["lib", "main", "mod"]
        .iter()
        .any(|s| stem.rsplit('/').next() == Some(s));
    let beside = if is_root { folder(parent) } else { stem };
    let files = [format!("{name}.rs"), format!("{name}/mod.rs")].map(|file| join(beside, &file));
    files.into_iter().find(|file| tree.text(file).is_some())
}

fn has_manual(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| {
        let before = line.starts_with("#![") && !line.starts_with("#![doc");
        !line.is_empty() && !before && !line.starts_with("// tidy:")
    });
    first.is_some_and(|line| line.starts_with("//!") || line.starts_with("#![doc"))
}

/// Each package's folder stands in the code map.
fn code_map(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let text = tree.text(MAP).unwrap_or_default();
    let is_title = |line: &str| line.starts_with('#') && line.to_lowercase().contains("code map");
    if !text.lines().any(is_title) {
        let message = "no section \"Code map\": list each package's folder there, as `core/wire/`";
        return vec![Finding::new("code-map", MAP, 1, message)];
    }
    let title = line_where(text, is_title);
    let level = |line: &str| line.bytes().take_while(|&b| b == b'#').count();
    let depth = text.lines().nth(title - 1).map_or(0, level);
    let section = text
        .lines()
        .skip(title)
        .take_while(|line| !(1..=depth).contains(&level(line)));
    let section = section.collect::<Vec<_>>().join("\n");
    let missing = workspace
        .packages()
        .filter(|p| !names_folder(&section, &p.folder));
    let findings = missing.map(|package| {
        let message = format!(
            "no `{}/` in the section \"Code map\": add it",
            package.folder
        );
        Finding::new("code-map", MAP, title, message)
    });
    findings.collect()
}

fn names_folder(text: &str, folder: &str) -> bool {
    let name = format!("{folder}/");
    text.match_indices(&name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '/' | '_' | '-'))
    })
}

/// Each library that a package uses stands in a decision, in backticks.
fn decisions(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let pages = tree
        .ending(".md")
        .filter(|(path, _)| path.starts_with(DECISIONS));
    let pages: String = pages.map(|(_, text)| text).collect();
    let mut findings = Vec::new();
    for package in workspace.packages() {
        let manifest = package.manifest();
        let text = tree.text(&manifest).unwrap_or_default();
        for dependency in package.dependencies.iter().filter(|d| d.folder.is_none()) {
            let name = &dependency.name;
            if pages.contains(&format!("`{name}`")) {
                continue;
            }
            let line = line_where(text, |line| line.starts_with(name));
            let message =
                format!("`{name}` stands in no page of {DECISIONS}: write why it is used");
            findings.push(Finding::new("decision", &manifest, line, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|f| f.path.as_str()).collect()
    }

    #[test]
    fn a_public_module_without_its_purpose_is_found() {
        let tree = Tree::from([
            (
                "io/src/lib.rs",
                "//! Sockets.\npub mod pool;\npub mod udp;\nmod own;\npub mod x {}\n",
            ),
            ("io/src/pool.rs", "use std::io;\n"),
            ("io/src/own.rs", "use std::io;\n"),
            (
                "io/src/udp.rs",
                "// tidy: data table\n//! Datagrams.\npub mod recv;\n",
            ),
            (
                "io/src/udp/recv.rs",
                "/// Not the module's.\npub struct Batch;\n",
            ),
        ]);

        let found = modules(&tree);

        assert_eq!(paths(&found), ["io/src/pool.rs", "io/src/udp/recv.rs"]);
    }

    #[test]
    fn a_crate_root_without_its_purpose_is_found() {
        let tree = Tree::from([
            ("app/src/main.rs", "fn main() {}\n"),
            (
                "io/src/lib.rs",
                "#![allow(unsafe_code)]\n#![doc = include_str!(\"../io.md\")]\n",
            ),
        ]);

        assert_eq!(paths(&modules(&tree)), ["app/src/main.rs"]);
    }

    #[test]
    fn a_crate_outside_the_code_map_is_found() {
        let map =
            "# Architecture\n`node/`\n## Code map\n### core\n- `core/wire/`\n## Threads\n`io/`\n";
        let tree = Tree::from([(MAP, map)]);

        let found = code_map(&tree, &Workspace::sample("core/wire:\nwire:\nnode:\nio:\n"));

        let places: Vec<_> = found.iter().map(|f| (f.line, f.rule)).collect();
        assert_eq!(places, [(3, "code-map"); 3]);
        assert!(found[0].message.starts_with("no `wire/` in"));
    }

    #[test]
    fn a_missing_code_map_is_one_finding() {
        let found = code_map(&Tree::from([]), &Workspace::sample("io:\nnode:\n"));

        assert_eq!(paths(&found), [MAP]);
    }

    #[test]
    fn a_library_without_a_decision_is_found() {
        let tree = Tree::from([
            ("docs/adr/0001-rings.md", "We use `rtrb`, not crossbeam.\n"),
            (
                "io/Cargo.toml",
                "[dependencies]\nrtrb.workspace = true\ncrossbeam = \"1\"\n",
            ),
        ]);

        let found = decisions(&tree, &Workspace::sample("io: rtrb crossbeam\n"));

        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].rule), (3, "decision"));
    }
}
