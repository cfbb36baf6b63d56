//! What belongs to the place where the code was written and not to the product.

use crate::files::Tree;
use crate::finding::Finding;

/// Absolute paths of somebody's machine. In pieces, so that this file passes its own rule.
const PATHS: [&str; 3] = [
    concat!("/", "work/"),
    concat!("/", "root/"),
    concat!("/", "Users/"),
];

/// Hosts of private registries and mirrors, and the trade's own tools.
const WORDS: [&str; 7] = [
    concat!("art", "ifactory"),
    concat!("j", "frog"),
    concat!("codeart", "ifact"),
    concat!("verd", "accio"),
    concat!("rs", "proxy"),
    concat!(".pkg", ".dev"),
    concat!("sub", "agent"),
];

/// The only registry that a lock file may name.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.iter() {
        for (n, line) in text.lines().enumerate() {
            let mut add = |message| findings.push(Finding::new("words", path, n + 1, message));
            for word in PATHS.into_iter().filter(|word| has_path(line, word)) {
                add(format!(
                    "path `{word}` of one machine: use a relative path or an argument"
                ));
            }
            let lower = line.to_lowercase();
            for word in WORDS.into_iter().filter(|word| lower.contains(word)) {
                add(format!(
                    "`{word}` does not belong in the product: take it out"
                ));
            }
            if path.ends_with("Cargo.lock")
                && line.contains("registry+")
                && !line.contains(REGISTRY)
            {
                add("a registry other than crates.io: lock without your mirror".to_owned());
            }
        }
    }
    findings
}

/// Whether an absolute path starts with `word`; `src/work/a.rs` and addresses do not count.
fn has_path(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '.' | '_' | '-' | '~' | '}'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_one_machine_are_found() {
        let path = PATHS[0];
        let text = format!("cd {path}x\nsrc{path}y\nhttps://example.org{path}z\n\"{path}\"\n");

        let found = check(&Tree::from([("README.md", &*text)]));

        let lines: Vec<_> = found.iter().map(|f| f.line).collect();
        assert_eq!(lines, [1, 4]);
    }

    #[test]
    fn words_of_the_trade_are_found_in_any_case() {
        let text = format!("one\na {} here\n", WORDS[6].to_uppercase());

        let found = check(&Tree::from([("docs/a.md", &*text)]));

        assert_eq!((found.len(), found[0].line), (1, 2));
    }

    #[test]
    fn a_lock_file_names_crates_io_only() {
        let text =
            format!("source = \"{REGISTRY}\"\nsource = \"registry+https://example.org/i\"\n");

        let found = check(&Tree::from([("Cargo.lock", &*text)]));

        assert_eq!((found.len(), found[0].line), (1, 2));
    }
}
