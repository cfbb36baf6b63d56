//! Paths that documentation names in back ticks are there.
//!
//! Only what begins with a folder or file at the root and has a slash is a path: `core/wire/` is
//! one, `image/png` and `bench/room/audio` are none.

use crate::files::Tree;
use crate::finding::Finding;

/// Where every path in back ticks is one of the repository.
const PAGES: [&str; 2] = ["ARCHITECTURE.md", "README.md"];
const GUIDES: &str = "docs/guides/";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (page, text) in tree.ending(".md") {
        if !PAGES.contains(&page) && !page.starts_with(GUIDES) {
            continue;
        }
        for (line, span) in spans(text) {
            if is_path(tree, span) && !leads_somewhere(tree, span) {
                let message = format!("`{span}` names nothing in the repository");
                findings.push(Finding::new("paths", page, line, message));
            }
        }
    }
    findings
}

/// Code spans outside fenced and indented code, with their lines, from 1.
fn spans(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().flat_map(move |(n, line)| {
        let fence = line.trim_start();
        if fence.starts_with("```") || fence.starts_with("~~~") {
            fenced = !fenced;
        }
        let is_code = fenced || line.starts_with("    ");
        let parts: Vec<&str> = line.split('`').collect();
        let closed = parts.len().saturating_sub(1);
        let spans = parts.into_iter().take(closed).skip(1).step_by(2);
        spans
            .filter(move |_| !is_code)
            .map(move |span| (n + 1, span))
            .collect::<Vec<_>>()
    })
}

/// Whether a span looks like a path from the root: one word, and its first part is there.
fn is_path(tree: &Tree, span: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '*');
    let first = span.split('/').next().unwrap_or_default();
    span.contains('/') && !first.is_empty() && span.chars().all(plain) && tree.has(first)
}

/// A file or folder, or a beginning of some such as `core/*`.
fn leads_somewhere(tree: &Tree, span: &str) -> bool {
    let path = span.trim_end_matches('/');
    match path.split_once('*') {
        Some((start, _)) => tree.iter().any(|(known, _)| known.starts_with(start)),
        None => tree.has(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &'static str, text: &str) -> Vec<(usize, String)> {
        let tree = Tree::from([
            (page, text),
            ("node/src/port/tcp/mod.rs", ""),
            ("core/wire/src/lib.rs", ""),
            ("web/lab/index.html", ""),
        ]);
        let found = check(&tree).into_iter();
        found
            .map(|finding| (finding.line, finding.message))
            .collect()
    }

    #[test]
    fn a_file_that_has_moved_is_found() {
        let text = "Streams (`node/src/port/tcp/`) and\n`node/src/port/tcp.rs`, `core/wires/`.\n";
        let gone = |path: &str| (2, format!("`{path}` names nothing in the repository"));
        let both = [gone("node/src/port/tcp.rs"), gone("core/wires/")];
        assert_eq!(found("ARCHITECTURE.md", text), both);
        assert_eq!(found("docs/guides/rtp.md", text), both);
        assert_eq!(
            found("docs/adr/0001-x.md", text),
            [],
            "a decision is of its day"
        );
    }

    #[test]
    fn what_is_no_path_of_the_repository_is_left_alone() {
        let text = "`core/*` `web/lab` `image/png` `/v1/health` `core->model/` `node/ and io/`\n\
                    ```sh\ncat `node/gone.rs`\n```\n    `node/gone.rs`\nan odd `node/gone.rs\n";
        assert_eq!(found("README.md", text), []);
    }
}
