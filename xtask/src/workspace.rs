//! The packages of the workspace, as `cargo metadata` lists them.

use std::io;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::files::folder;

/// All packages, by folder.
pub(crate) struct Workspace {
    packages: Vec<Package>,
}

/// One package.
pub(crate) struct Package {
    /// Folder from the root: `core/model`.
    pub(crate) folder: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One direct dependency.
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Folder of a package of this workspace; `None` for one from a registry.
    pub(crate) folder: Option<String>,
    /// Used by tests and examples only.
    pub(crate) dev: bool,
}

impl Workspace {
    /// Asks cargo. Needs no network and no lock file, as only the members are listed.
    pub(crate) fn load(root: &Path) -> io::Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["metadata", "--format-version=1", "--no-deps", "--offline"]);
        let output = command.current_dir(root).output()?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            return Err(io::Error::other(format!("cargo metadata failed: {reason}")));
        }
        Self::parse(&String::from_utf8_lossy(&output.stdout))
            .ok_or_else(|| io::Error::other("cargo metadata gave no list of packages"))
    }

    /// Reads the JSON that `cargo metadata --format-version=1` writes.
    pub(crate) fn parse(json: &str) -> Option<Self> {
        let metadata: Value = serde_json::from_str(json).ok()?;
        let root = metadata["workspace_root"].as_str()?;
        let packages = metadata["packages"].as_array()?.iter();
        let packages = packages
            .map(|p| Package::parse(p, root))
            .collect::<Option<_>>()?;
        Some(Self { packages })
    }

    pub(crate) fn len(&self) -> usize {
        self.packages.len()
    }

    pub(crate) fn packages(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter()
    }

    pub(crate) fn package(&self, folder: &str) -> Option<&Package> {
        self.packages.iter().find(|p| p.folder == folder)
    }
}

impl Package {
    fn parse(package: &Value, root: &str) -> Option<Self> {
        let manifest = package["manifest_path"]
            .as_str()?
            .strip_prefix(root)?
            .trim_matches('/');
        let dependencies = package["dependencies"]
            .as_array()?
            .iter()
            .map(|dependency| {
                let path = dependency["path"]
                    .as_str()
                    .and_then(|p| p.strip_prefix(root));
                Some(Dependency {
                    name: dependency["name"].as_str()?.to_owned(),
                    folder: path.map(|p| p.trim_matches('/').to_owned()),
                    dev: dependency["kind"] == "dev",
                })
            });
        let dependencies = dependencies.collect::<Option<_>>()?;
        Some(Self {
            folder: folder(manifest).to_owned(),
            dependencies,
        })
    }

    /// Path of the manifest from the root.
    pub(crate) fn manifest(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }
}

#[cfg(test)]
impl Workspace {
    /// A workspace from lines such as `io: core/wire rtrb dev:node`; a name with a `-` or without
    /// a package of that name comes from a registry.
    pub(crate) fn sample(lines: &str) -> Self {
        let folders: Vec<_> = lines.lines().filter_map(|l| l.split(':').next()).collect();
        let packages = lines.lines().map(|line| {
            let (folder, rest) = line.split_once(':').expect("folder: dependencies");
            let dependencies = rest.split_whitespace().map(|word| {
                let name = word.trim_start_matches("dev:");
                Dependency {
                    name: name.to_owned(),
                    folder: folders.contains(&name).then(|| name.to_owned()),
                    dev: word.starts_with("dev:"),
                }
            });
            Package {
                folder: folder.to_owned(),
                dependencies: dependencies.collect(),
            }
        });
        Self {
            packages: packages.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_becomes_folders_and_kinds() {
        let json = r#"{"workspace_root": "/x", "packages": [{"manifest_path": "/x/io/Cargo.toml",
            "dependencies": [{"name": "sangam-wire", "kind": null, "path": "/x/core/wire"},
                             {"name": "proptest", "kind": "dev"}]}]}"#;

        let workspace = Workspace::parse(json).expect("well formed");

        let package = workspace.package("io").expect("listed");
        let found: Vec<_> = package
            .dependencies
            .iter()
            .map(|d| (d.folder.as_deref(), d.dev))
            .collect();
        assert_eq!(found, [(Some("core/wire"), false), (None, true)]);
    }

    #[test]
    fn other_output_is_refused() {
        assert!(Workspace::parse("error: no manifest").is_none());
    }
}
