//! Files, functions and lines stay small enough to be read at once.

use crate::files::Tree;
use crate::finding::Finding;
use crate::rust::Rust;

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const COLUMNS_MAX: usize = 100;

/// A file with this comment is a table of data: its length is not limited.
const TABLE: &str = "// tidy: data table";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let scripts = tree.ending(".ts").chain(tree.ending(".tsx"));
    for (path, text) in tree.ending(".rs").chain(scripts) {
        findings.extend(file_lines(path, text));
    }
    for (path, rust) in tree.rust() {
        findings.extend(function_lines(path, &rust));
        findings.extend(columns(path, rust.text));
    }
    findings
}

fn file_lines(path: &str, text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    if lines <= FILE_LINES_MAX || text.lines().any(|line| line.trim() == TABLE) {
        return None;
    }
    let message = format!(
        "{lines} lines, at most {FILE_LINES_MAX}: split it by role, or mark a table with `{TABLE}`"
    );
    Some(Finding::new(
        "file-lines",
        path,
        FILE_LINES_MAX + 1,
        message,
    ))
}

fn function_lines(path: &str, rust: &Rust<'_>) -> Vec<Finding> {
    let long = rust.functions().filter(|f| f.lines > FUNCTION_LINES_MAX);
    let findings = long.map(|f| {
        let message = format!(
            "`{}` has {} lines, at most {FUNCTION_LINES_MAX}: move a step into a function",
            f.name, f.lines
        );
        Finding::new("function-lines", path, f.line, message)
    });
    findings.collect()
}

fn columns(path: &str, text: &str) -> Vec<Finding> {
    let lines = text
        .lines()
        .enumerate()
        .map(|(n, line)| (n + 1, line, line.chars().count()));
    let wide = lines.filter(|(_, line, columns)| *columns > COLUMNS_MAX && !is_address(line));
    let findings = wide.map(|(line, _, columns)| {
        let message = format!("{columns} columns, at most {COLUMNS_MAX}: break the line");
        Finding::new("columns", path, line, message)
    });
    findings.collect()
}

/// A comment that is nothing but an address cannot be broken.
fn is_address(line: &str) -> bool {
    let comment = line.trim().trim_start_matches(['/', '!']).trim();
    comment.contains("://") && !comment.contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_501_lines_is_found_unless_it_is_a_table() {
        let long = "\n".repeat(501);
        let table = format!("{TABLE}\n{long}");
        let tree = Tree::from([("a.rs", &*long), ("b.ts", &*long), ("c.rs", &*table)]);

        let found = check(&tree);

        let files: Vec<_> = found.iter().map(|f| (&*f.path, f.line, f.rule)).collect();
        assert_eq!(
            files,
            [("a.rs", 501, "file-lines"), ("b.ts", 501, "file-lines")]
        );
    }

    #[test]
    fn a_file_of_500_lines_passes() {
        assert_eq!(check(&Tree::from([("a.rs", &*"\n".repeat(500))])), []);
    }

    #[test]
    fn a_function_of_71_lines_is_found_in_tests_too() {
        let text = format!(
            "mod tests {{\nfn a() {{{}}}\nfn b() {{}}\n}}\n",
            "\n".repeat(70)
        );

        let found = check(&Tree::from([("a.rs", &*text)]));

        assert_eq!(found.len(), 1);
        assert_eq!((found[0].line, found[0].rule), (2, "function-lines"));
        assert!(found[0].message.starts_with("`a` has 71 lines"));
    }

    #[test]
    fn a_line_of_101_characters_is_found_unless_it_is_an_address() {
        let wide = format!("// {}", "ü".repeat(98));
        let fits = format!("// {}", "ü".repeat(97));
        let address = format!("// https://example.org/{}", "x".repeat(98));
        let text = [wide, fits, address].join("\n");

        let found = check(&Tree::from([("a.rs", &*text)]));

        let lines: Vec<_> = found.iter().map(|f| (f.line, f.rule)).collect();
        assert_eq!(lines, [(1, "columns")]);
    }
}
