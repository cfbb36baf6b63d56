//! Relative links of the documentation lead somewhere: to a file, a folder, a heading.

use std::collections::BTreeMap;

use crate::files::{Tree, folder};
use crate::finding::Finding;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (line, target) in prose(text).flat_map(|(n, line)| targets(n, line)) {
            if let Some(reason) = dead(tree, path, &target) {
                let message = format!("dead link `{target}`: {reason}");
                findings.push(Finding::new("links", path, line, message));
            }
        }
    }
    findings
}

/// Why a link of the file `path` leads nowhere.
fn dead(tree: &Tree, path: &str, target: &str) -> Option<String> {
    if is_remote(target) {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = if file.is_empty() {
        Some(path.to_owned())
    } else {
        resolve(path, file)
    };
    let Some(file) = file else {
        return Some("it leaves the repository".to_owned());
    };
    if !tree.has(&file) {
        return Some(format!("there is no {file} in the repository"));
    }
    let text = tree
        .text(&file)
        .filter(|_| file.ends_with(".md") && !anchor.is_empty())?;
    let found = anchors(text).iter().any(|a| a == anchor);
    (!found).then(|| format!("no heading of {file} has that anchor"))
}

fn is_remote(target: &str) -> bool {
    let scheme = target.split(':').next().unwrap_or_default();
    target.contains(':')
        && scheme
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'+')
}

/// The path from the root that a link means; `None` where it leaves the repository.
fn resolve(path: &str, target: &str) -> Option<String> {
    let rooted = target.starts_with('/');
    let start = if rooted { "" } else { folder(path) };
    let mut parts: Vec<&str> = start.split('/').filter(|p| !p.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/").replace("%20", " "))
}

/// The lines outside fenced code, from 1, with code spans blanked.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(n, line)| {
        let fence = line.trim_start();
        if fence.starts_with("```") || fence.starts_with("~~~") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then(|| (n + 1, blank_spans(line)))
    })
}

fn blank_spans(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let blanked = parts.iter().enumerate().map(|(n, part)| {
        let closed = n % 2 == 1 && n + 1 < parts.len();
        if closed {
            " ".repeat(part.len())
        } else {
            (*part).to_owned()
        }
    });
    blanked.collect::<Vec<_>>().join("`")
}

/// Targets of inline links and pictures, `[a](target)`, and of definitions, `[a]: target`.
fn targets(n: usize, line: String) -> Vec<(usize, String)> {
    let inline = line.match_indices("](").map(|(at, _)| {
        let rest = &line[at + 2..];
        &rest[..closing(rest)]
    });
    let definition = line
        .trim_start()
        .strip_prefix('[')
        .and_then(|l| l.split_once("]:"));
    let definition = definition
        .filter(|(name, _)| !name.contains(']'))
        .map(|(_, target)| target);
    let targets = inline.chain(definition).map(|target| {
        let target = target.trim();
        let bare = target.strip_prefix('<').and_then(|t| t.split('>').next());
        bare.or_else(|| target.split_whitespace().next())
            .unwrap_or_default()
    });
    targets
        .filter(|target| !target.is_empty())
        .map(|target| (n, target.to_owned()))
        .collect()
}

fn closing(text: &str) -> usize {
    let mut depth = 1;
    let close = text.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    close.unwrap_or(text.len())
}

/// The anchors that a renderer gives the headings, and those written out as `<a id="x">`.
fn anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        for mark in ["<a id=\"", "<a name=\""] {
            let written = line
                .split(mark)
                .skip(1)
                .filter_map(|rest| rest.split('"').next());
            anchors.extend(written.map(str::to_owned));
        }
        let title = line.trim_start_matches('#');
        if line.starts_with('#') && title.starts_with(' ') {
            let slug = slug(title.trim());
            let count = seen.entry(slug.clone()).or_default();
            anchors.push(if *count == 0 {
                slug
            } else {
                format!("{slug}-{count}")
            });
            *count += 1;
        }
    }
    anchors
}

fn slug(title: &str) -> String {
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String)> {
        let tree = Tree::from([
            ("docs/guide.md", text),
            (
                "docs/spec/wire.md",
                "# Wire `v1`\n## Frames\n## Frames\n<a id=\"own\"></a>\n",
            ),
            ("docs/plot.svg", ""),
            ("README.md", ""),
        ]);
        check(&tree)
            .into_iter()
            .map(|f| (f.line, f.message))
            .collect()
    }

    #[test]
    fn living_links_pass() {
        let text = "# Top\n[a](spec/wire.md) ![p](plot.svg \"Plot\") [b](../README.md)\n\
                    [c](spec/wire.md#wire-v1) [d](spec/wire.md#frames-1) [e](spec/wire.md#own)\n\
                    [f](#top) [g](https://example.org/x) [h](spec/) [i](/README.md)\n\
                    [j]: <plot.svg>\n";

        assert_eq!(found(text), []);
    }

    #[test]
    fn dead_links_are_found() {
        let text =
            "[a](wire.md)\n[b](spec/wire.md#none)\n[c](../../x.md)\n\n[d]: gone.md\n[e](#no)\n";

        let found = found(text);

        assert_eq!(
            found.iter().map(|f| f.0).collect::<Vec<_>>(),
            [1, 2, 3, 5, 6]
        );
        assert!(
            found[0]
                .1
                .ends_with("there is no docs/wire.md in the repository")
        );
        assert!(found[2].1.ends_with("it leaves the repository"));
    }

    #[test]
    fn code_is_not_searched_for_links() {
        assert_eq!(found("`[a](x.md)`\n```text\n[b](y.md)\n```\n"), []);
    }
}
