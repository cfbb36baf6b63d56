//! Every crate is under the workspace's lints, or under a list of its own that is no weaker.

use std::collections::BTreeMap;

use super::line_where;
use crate::files::Tree;
use crate::finding::Finding;
use crate::workspace::Workspace;

/// io/ alone may lift this one; the `unsafe` rule watches the rest.
const LIFTED: (&str, &str) = ("io", "rust.unsafe_code");

type Lints<'a> = BTreeMap<String, &'a str>;

pub(crate) fn check(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let wanted = lints(
        tree.text("Cargo.toml").unwrap_or_default(),
        "workspace.lints.",
    );
    let mut findings = Vec::new();
    for package in workspace.packages() {
        let manifest = package.manifest();
        let text = tree.text(&manifest).unwrap_or_default();
        let own = lints(text, "lints.");
        if inherits(text) {
            continue;
        }
        let lifted = |lint: &str| (package.folder.as_str(), lint) == LIFTED;
        let weaker = wanted
            .iter()
            .filter(|(lint, level)| own.get(*lint) != Some(level));
        let weaker: Vec<&str> = weaker
            .map(|(l, _)| l.as_str())
            .filter(|l| !lifted(l))
            .collect();
        if !weaker.is_empty() {
            let line = line_where(text, |line| line.starts_with("[lints"));
            let names = weaker.join(", ");
            let message = format!("without the lints {names}: write `[lints]` `workspace = true`");
            findings.push(Finding::new("lints", &manifest, line, message));
        }
    }
    findings
}

fn inherits(manifest: &str) -> bool {
    entries(manifest).any(|(table, key, value)| {
        value == "true"
            && matches!(
                (table, key),
                ("lints", "workspace") | ("", "lints.workspace")
            )
    })
}

/// Level by lint, `rust.missing_docs` to `"deny"`, from the tables whose name starts so.
fn lints<'a>(manifest: &'a str, start: &str) -> Lints<'a> {
    let rows = entries(manifest);
    rows.filter_map(|(table, key, value)| {
        Some((format!("{}.{key}", table.strip_prefix(start)?), value))
    })
    .collect()
}

/// Table, key and value of every plain line of a manifest.
fn entries(manifest: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let mut table = "";
    manifest.lines().map(str::trim).filter_map(move |line| {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            table = name;
            return None;
        }
        let (key, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
        Some((table, key.trim(), value.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace.lints.rust]\nmissing_docs = \"deny\"\nunsafe_code = \"deny\"\n";

    fn found(manifest: &str) -> Vec<Finding> {
        let tree = Tree::from([("Cargo.toml", ROOT), ("io/Cargo.toml", manifest)]);
        check(&tree, &Workspace::sample("io:\n"))
    }

    #[test]
    fn inherited_lints_pass() {
        assert_eq!(
            found("[package]\nname = \"x\"\n\n[lints]\nworkspace = true\n"),
            []
        );
        assert_eq!(found("lints.workspace = true\n[package]\n"), []);
    }

    #[test]
    fn an_equal_list_passes_and_io_may_lift_unsafe_code() {
        let lifted = "[lints.rust]\nmissing_docs = \"deny\"\nunsafe_code = \"allow\"\n";

        assert_eq!(found(lifted), []);
    }

    #[test]
    fn a_crate_without_lints_is_found() {
        let found = found("[package]\nname = \"x\"\n\n[lints.rust]\nmissing_docs = \"warn\"\n");

        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].rule), (4, "lints"));
        assert!(found[0].message.contains("rust.missing_docs"));
    }
}
