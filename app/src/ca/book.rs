//! What an authority has issued: one JSON object per line.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{CaError, at, text};
use crate::keep::{self, Readers};

pub(super) const FILE: &str = "issued.jsonl";

/// All certificates, in the order of their issue.
#[derive(Debug, Default)]
pub(crate) struct Book(Vec<Entry>);

/// One certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Hexadecimal, with colons between the bytes.
    pub(crate) serial: String,
    /// Whose key it is for.
    pub(crate) broker: String,
    /// What stands in it.
    pub(crate) names: Vec<String>,
    /// When it ends, in seconds since 1970.
    pub(crate) until: i64,
    /// When it was revoked, if it was.
    pub(crate) revoked: Option<i64>,
}

impl Book {
    pub(super) fn read(folder: &Path) -> Result<Self, CaError> {
        let path = folder.join(FILE);
        let lines: Result<_, _> = text(&path)?.lines().map(serde_json::from_str).collect();
        let lines = lines.map_err(|_| CaError::Wrong(path, "a damaged line"))?;
        Ok(Self(lines))
    }

    pub(super) fn write(&self, folder: &Path) -> Result<(), CaError> {
        let path = folder.join(FILE);
        let mut text = String::new();
        for entry in &self.0 {
            let line = serde_json::to_string(entry);
            text += &line.map_err(|error| CaError::Io(path.clone(), error.into()))?;
            text.push('\n');
        }
        keep::write(&path, text.as_bytes(), Readers::Owner).map_err(at(&path))
    }

    pub(super) fn add(&mut self, entry: Entry) {
        self.0.push(entry);
    }

    /// Revokes what is not revoked yet.
    pub(super) fn revoke(&mut self, now: i64, which: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        let open = self.0.iter_mut().filter(|entry| entry.revoked.is_none());
        let chosen = open.filter(|entry| which(entry));
        let revoke = |entry: &mut Entry| {
            entry.revoked = Some(now);
            entry.clone()
        };
        chosen.map(revoke).collect()
    }

    pub(super) fn revoked(&self) -> impl Iterator<Item = (&Entry, i64)> {
        let entries = self.0.iter();
        entries.filter_map(|entry| entry.revoked.map(|when| (entry, when)))
    }
}

impl Entry {
    pub(super) fn serial_bytes(&self) -> Option<Vec<u8>> {
        let bytes = self.serial.split(':');
        bytes
            .map(|byte| u8::from_str_radix(byte, 16).ok())
            .collect()
    }

    /// Whether this is its serial number, be it written with colons or without, in any case.
    pub(crate) fn has_serial(&self, text: &str) -> bool {
        let plain = |text: &str| text.replace(':', "").to_ascii_lowercase();
        plain(&self.serial) == plain(text)
    }
}
