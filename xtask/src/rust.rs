//! A light scanner of Rust source: enough to count and to search, not to parse.

use std::ops::Range;

/// A source file with its comments, strings and characters blanked out.
pub(crate) struct Rust<'a> {
    /// The text as it is.
    pub(crate) text: &'a str,
    /// The same length and lines; spaces for everything that is not code.
    pub(crate) code: String,
    tests: Vec<Range<usize>>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    /// Line of the `fn`, from 1.
    pub(crate) line: usize,
    /// Lines from the `fn` to the closing brace.
    pub(crate) lines: usize,
}

impl<'a> Rust<'a> {
    pub(crate) fn scan(path: &str, text: &'a str) -> Self {
        let code = mask(text);
        let whole = path.split('/').any(is_test_path);
        let tests = if whole {
            std::iter::once(0..code.len()).collect()
        } else {
            tests(&code)
        };
        Self { text, code, tests }
    }

    /// The line of a byte position, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        1 + self.code.as_bytes()[..at]
            .iter()
            .filter(|&&b| b == b'\n')
            .count()
    }

    /// Whether a byte position lies in a test.
    pub(crate) fn in_test(&self, at: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&at))
    }

    /// Where `word` stands as a whole identifier in the code.
    pub(crate) fn words(&self, word: &str) -> impl Iterator<Item = usize> {
        words(&self.code, word)
    }

    /// The first character of code after `at` that is not white space.
    pub(crate) fn next_char(&self, at: usize) -> Option<char> {
        self.code[at..].chars().find(|c| !c.is_whitespace())
    }

    /// The code before `at` without the white space at its end.
    pub(crate) fn before(&self, at: usize) -> &str {
        self.code[..at].trim_end()
    }

    /// Every attribute, as position and text without white space: `cfg(test)`.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (usize, String)> {
        attributes(&self.code).map(|(range, text)| (range.start, text))
    }

    /// Every function with a body, nested ones too.
    pub(crate) fn functions(&self) -> impl Iterator<Item = Function<'_>> {
        self.words("fn").filter_map(|at| {
            let rest = self.code[at + 2..].trim_start();
            let name = &rest[..rest.bytes().take_while(|&b| is_word(b)).count()];
            if name.is_empty() {
                return None; // a function type
            }
            let body = item_end(&self.code, at)?;
            self.code[..body].ends_with('}').then(|| {
                let line = self.line(at);
                Function {
                    name,
                    line,
                    lines: 1 + self.line(body - 1) - line,
                }
            })
        })
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn words(code: &str, word: &str) -> impl Iterator<Item = usize> {
    let bytes = code.as_bytes();
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| {
            let starts = at == 0 || !is_word(bytes[at - 1]);
            starts && bytes.get(at + word.len()).is_none_or(|&b| !is_word(b))
        })
}

/// The position after the item that starts at `at`: after its closing brace or its semicolon.
fn item_end(code: &str, at: usize) -> Option<usize> {
    let (mut braces, mut others) = (0_usize, 0_usize);
    for (i, byte) in code.bytes().enumerate().skip(at) {
        match byte {
            b'(' | b'[' => others += 1,
            b')' | b']' => others = others.saturating_sub(1),
            b'{' => braces += 1,
            b'}' => {
                braces = braces.saturating_sub(1);
                if braces == 0 && others == 0 {
                    return Some(i + 1);
                }
            }
            b';' if braces == 0 && others == 0 => return Some(i + 1),
            _ => {}
        }
    }
    None
}

fn attributes(code: &str) -> impl Iterator<Item = (Range<usize>, String)> {
    code.match_indices('#').filter_map(|(at, _)| {
        let open = at + 1 + usize::from(code[at + 1..].starts_with('!'));
        if !code[open..].starts_with('[') {
            return None;
        }
        let mut depth = 0;
        let close = code[open..].find(|c| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            depth == 0
        })?;
        let text = code[open + 1..open + close].split_whitespace().collect();
        Some((at..open + close + 1, text))
    })
}

fn tests(code: &str) -> Vec<Range<usize>> {
    let tests = attributes(code).filter(|(_, text)| is_test(text));
    let ranges = tests.map(|(range, _)| {
        let inner = code[range.start..].starts_with("#!");
        let end = if inner {
            code.len()
        } else {
            item_end(code, range.end).unwrap_or(code.len())
        };
        range.start..end
    });
    ranges.collect()
}

/// Whether a folder or file of this name holds tests only.
fn is_test_path(name: &str) -> bool {
    matches!(name, "tests" | "tests.rs" | "test.rs") || name.ends_with("_tests.rs")
}

fn is_test(attribute: &str) -> bool {
    let path = attribute.split('(').next().unwrap_or_default();
    let configured = path == "cfg" && words(attribute, "test").next().is_some();
    (configured && !attribute.contains("not(test)")) || path == "test" || path.ends_with("::test")
}

/// Blanks comments, strings and characters; keeps length and lines.
fn mask(text: &str) -> String {
    let source = text.as_bytes();
    let mut code = source.to_vec();
    let mut at = 0;
    while at < source.len() {
        let end = match source[at] {
            b'/' if source[at..].starts_with(b"//") => line_comment(source, at),
            b'/' if source[at..].starts_with(b"/*") => block_comment(source, at),
            b'"' => string(source, at),
            b'\'' => character(text, at),
            _ => at + 1,
        };
        if end > at + 1 {
            code[at..end]
                .iter_mut()
                .filter(|b| **b != b'\n')
                .for_each(|b| *b = b' ');
        }
        at = end;
    }
    String::from_utf8_lossy(&code).into_owned()
}

fn line_comment(source: &[u8], at: usize) -> usize {
    source[at..]
        .iter()
        .position(|&b| b == b'\n')
        .map_or(source.len(), |n| at + n)
}

fn block_comment(source: &[u8], start: usize) -> usize {
    let (mut depth, mut at) = (0, start);
    while at < source.len() {
        if source[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if source[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    source.len()
}

fn string(source: &[u8], quote: usize) -> usize {
    let before = &source[..quote];
    let hashes = before.iter().rev().take_while(|&&b| b == b'#').count();
    if is_raw(&before[..quote - hashes]) {
        let close: Vec<u8> = std::iter::once(b'"')
            .chain(std::iter::repeat_n(b'#', hashes))
            .collect();
        let found = source[quote + 1..]
            .windows(close.len())
            .position(|w| w == close);
        return found.map_or(source.len(), |n| quote + 1 + n + close.len());
    }
    let mut at = quote + 1;
    while at < source.len() && source[at] != b'"' {
        at += 1 + usize::from(source[at] == b'\\');
    }
    (at + 1).min(source.len())
}

/// Whether a literal that follows `before` is raw: `r`, `br` or `cr`, as a word of its own.
fn is_raw(before: &[u8]) -> bool {
    let word = before.iter().rev().take_while(|&&b| is_word(b)).count();
    matches!(&before[before.len() - word..], b"r" | b"br" | b"cr")
}

/// The end of the character at `quote`; the quote of a lifetime stands for itself.
fn character(text: &str, quote: usize) -> usize {
    let mut chars = text[quote + 1..].char_indices();
    match chars.next() {
        Some((_, '\\')) => {
            chars.next();
            chars
                .find(|&(_, c)| c == '\'')
                .map_or(text.len(), |(n, _)| quote + 2 + n)
        }
        Some(_) => match chars.next() {
            Some((n, '\'')) => quote + 2 + n,
            _ => quote + 1,
        },
        None => quote + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Rust::scan("io/src/lib.rs", text).code
    }

    #[test]
    fn comments_and_strings_are_blanked() {
        assert_eq!(
            code("a // b\nc /* d /* e */ f */ g"),
            format!("a     \nc{}g", " ".repeat(19))
        );
        assert_eq!(code(r#"a("b\"c", x)"#), "a(      , x)");
        assert_eq!(code("a(r#\"b\"c\"#, br\"\\\", y)"), "a(r#      , br   , y)");
    }

    #[test]
    fn lifetimes_are_not_characters() {
        assert_eq!(
            code("f<'a>('{', '\\'', 'é', b'}')"),
            "f<'a>(   ,     ,     , b   )"
        );
    }

    #[test]
    fn functions_are_measured_to_their_closing_brace() {
        let text = "fn a() {}\ntrait T {\n    fn b();\n    fn c(f: fn(u8)) -> [u8; 2]\n    {\n\
                    if x { \"}\" }\n    }\n}\n";
        let rust = Rust::scan("io/src/lib.rs", text);

        let found: Vec<_> = rust
            .functions()
            .map(|f| (f.name, f.line, f.lines))
            .collect();

        assert_eq!(found, [("a", 1, 1), ("c", 4, 4)]);
    }

    #[test]
    fn tests_are_known_by_attribute_and_by_path() {
        let text = "fn a() {}\n#[cfg(all(test, unix))]\nmod tests { fn b() {} }\n\
                    #[cfg(not(test))]\nfn c() {}\n#[test]\nfn d() {}\n";
        let rust = Rust::scan("io/src/lib.rs", text);

        let found: Vec<_> = rust.words("fn").map(|at| rust.in_test(at)).collect();

        assert_eq!(found, [false, true, false, true]);
        for path in [
            "io/tests/pool.rs",
            "io/src/tests.rs",
            "io/src/pool_tests.rs",
        ] {
            assert!(Rust::scan(path, "fn a() {}").in_test(0), "{path}");
        }
    }
}
