//! The text files of the repository, as git would keep them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::rust::Rust;

/// Every text file that is not ignored, by path from the root.
pub(crate) struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads all files below `root`. Uses no git, so that an unpacked archive can be checked too.
    pub(crate) fn read(root: &Path) -> io::Result<Self> {
        let ignore =
            Ignore::parse(&fs::read_to_string(root.join(".gitignore")).unwrap_or_default());
        let mut files = BTreeMap::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(root.join(&folder))? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = join(&folder, &name);
                if name == ".git" || ignore.matches(&path) {
                    continue;
                }
                let kind = entry.file_type()?;
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file() {
                    // Pictures and recordings stay in the list, as targets of links.
                    let text = String::from_utf8(fs::read(entry.path())?).unwrap_or_default();
                    files.insert(path, text);
                }
            }
        }
        Ok(Self { files })
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The files whose name ends with `ending`.
    pub(crate) fn ending(&self, ending: &'static str) -> impl Iterator<Item = (&str, &str)> {
        self.iter().filter(move |(path, _)| path.ends_with(ending))
    }

    /// The Rust sources, scanned.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, Rust<'_>)> {
        self.ending(".rs")
            .map(|(path, text)| (path, Rust::scan(path, text)))
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether `path` is a file, or a folder with files in it.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.files.contains_key(path)
            || self
                .files
                .range(folder.clone()..)
                .next()
                .is_some_and(|(p, _)| p.starts_with(&folder))
    }
}

#[cfg(test)]
impl<const N: usize> From<[(&str, &str); N]> for Tree {
    fn from(files: [(&str, &str); N]) -> Self {
        Self {
            files: files.map(|(p, t)| (p.to_owned(), t.to_owned())).into(),
        }
    }
}

/// The simple patterns that our `.gitignore` files use: `/folder`, `name`, `*.ending`, `start*`.
struct Ignore {
    patterns: Vec<String>,
}

impl Ignore {
    fn parse(text: &str) -> Self {
        let lines = text.lines().map(|l| l.trim().trim_end_matches('/'));
        let patterns = lines
            .filter(|l| !l.is_empty() && !l.starts_with('#'))
            .map(str::to_owned);
        Self {
            patterns: patterns.collect(),
        }
    }

    fn matches(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.patterns
            .iter()
            .any(|pattern| match pattern.strip_prefix('/') {
                Some(rooted) => glob(rooted, path),
                None => glob(pattern, if pattern.contains('/') { path } else { name }),
            })
    }
}

fn glob(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
        None => name == pattern,
    }
}

/// Joins a folder ("" is the root) and a relative path.
pub(crate) fn join(folder: &str, path: &str) -> String {
    if folder.is_empty() {
        path.to_owned()
    } else {
        format!("{folder}/{path}")
    }
}

/// The folder a path lies in, "" for the root.
pub(crate) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_paths_are_those_git_would_ignore() {
        let ignore = Ignore::parse("/target\n# note\n*.profraw\nperf.data*\nnode_modules/\n");

        assert!(ignore.matches("target"));
        assert!(!ignore.matches("lab/target"));
        assert!(ignore.matches("io/x.profraw"));
        assert!(ignore.matches("perf.data.old"));
        assert!(ignore.matches("web/app/node_modules"));
    }

    #[test]
    fn a_folder_exists_when_a_file_lies_in_it() {
        let tree = Tree::from([("docs/adr/0001-x.md", ""), ("docs-old.md", "")]);

        assert!(tree.has("docs/adr"));
        assert!(tree.has("docs"));
        assert!(!tree.has("docs/ad"));
        assert!(!tree.has("io"));
    }
}
