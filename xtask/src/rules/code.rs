//! Words that have no place in the code: `unsafe` outside io/, unfinished work, tests that wait
//! or do not run.

use crate::files::Tree;
use crate::finding::Finding;
use crate::rust::Rust;

/// Where `unsafe` may stand: io/, the emulator's system calls, which no product has, and the names
/// by which a page calls into WebAssembly.
const UNSAFE: [&str; 3] = ["io/", "lab/emulator/src/sys.rs", "lab/wasm/src/exports.rs"];
const UNFINISHED: [&str; 3] = ["todo", "unimplemented", "dbg"];
const SLEEPS: [&str; 3] = ["sleep", "sleep_ms", "sleep_until"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.rust()
        .flat_map(|(path, rust)| check_file(path, &rust))
        .collect()
}

fn check_file(path: &str, rust: &Rust<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |rule, at, message: String| {
        found.push(Finding::new(rule, path, rust.line(at), message));
    };
    if !UNSAFE.iter().any(|place| path.starts_with(place)) {
        for at in rust.words("unsafe") {
            let message = "unsafe outside io/: give io/ a safe function for it and call that";
            add("unsafe", at, message.to_owned());
        }
    }
    for word in UNFINISHED {
        for at in rust
            .words(word)
            .filter(|at| rust.next_char(at + word.len()) == Some('!'))
        {
            add(
                "unfinished",
                at,
                format!("`{word}!` left in the code: finish it or take it out"),
            );
        }
    }
    for word in SLEEPS {
        for at in rust
            .words(word)
            .filter(|&at| rust.in_test(at) && is_call(rust, at, word))
        {
            let message = "a test sleeps: wait for the event itself, or give the code virtual time";
            add("sleep", at, message.to_owned());
        }
    }
    for (at, attribute) in rust.attributes().filter(|(_, text)| ignores(text)) {
        let message = format!("`#[{attribute}]`: make the test run everywhere, or delete it");
        add("ignore", at, message);
    }
    found
}

/// Whether the word at `at` is a free function being called; methods may be virtual time.
fn is_call(rust: &Rust<'_>, at: usize, word: &str) -> bool {
    let before = rust.before(at);
    rust.next_char(at + word.len()) == Some('(')
        && !before.ends_with('.')
        && !before.ends_with(" fn")
        && before != "fn"
}

fn ignores(attribute: &str) -> bool {
    let conditional = attribute.starts_with("cfg_attr(") && attribute.contains(",ignore");
    attribute == "ignore" || attribute.starts_with("ignore=") || conditional
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(path: &str, text: &str) -> Vec<(usize, &'static str)> {
        check(&Tree::from([(path, text)]))
            .iter()
            .map(|f| (f.line, f.rule))
            .collect()
    }

    #[test]
    fn unsafe_is_found_outside_io_only() {
        let text = "// unsafe\nfn a() {\n    unsafe { b() }\n}\n#![allow(unsafe_code)]\n";

        assert_eq!(rules("node/src/lane.rs", text), [(3, "unsafe")]);
        assert_eq!(rules("lab/emulator/src/site.rs", text), [(3, "unsafe")]);
        for place in ["io/src/pool.rs", "lab/emulator/src/sys.rs"] {
            assert_eq!(rules(place, text), []);
        }
    }

    #[test]
    fn unfinished_work_is_found() {
        let text = "fn a() { todo!() }\nfn b() { todo(\"todo!\") }\nfn c() { dbg! (x) }\n";

        assert_eq!(
            rules("node/src/lane.rs", text),
            [(1, "unfinished"), (3, "unfinished")]
        );
    }

    #[test]
    fn sleeps_are_found_in_tests_only() {
        let text = "fn a() { thread::sleep(x) }\n#[test]\nfn b() {\n    thread::sleep(x);\n    \
                    tokio::time::sleep (x).await;\n    clock.sleep(x);\n    let sleep = 1;\n}\n";

        assert_eq!(rules("app/src/main.rs", text), [(4, "sleep"), (5, "sleep")]);
    }

    #[test]
    fn tests_that_do_not_run_are_found() {
        let text = "#[test]\n#[ignore]\nfn a() {}\n#[ignore = \"slow\"]\nfn b() {}\n\
                    #[cfg_attr(miri, ignore)]\nfn c() {}\n#[ignored]\nfn d() {}\n";

        let expected = [(2, "ignore"), (4, "ignore"), (6, "ignore")];
        assert_eq!(rules("app/src/main.rs", text), expected);
    }
}
