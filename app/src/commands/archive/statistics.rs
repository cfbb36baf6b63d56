//! How a server fares, every two seconds (Zimmermann et al., section 3.1), in a file for
//! experiments.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use sangam_rtsp::Rtsp;
use serde_json::{Map, Value, json};

use super::now;
use crate::exit::{Failure, io};

/// As in the paper.
const EVERY: Duration = Duration::from_secs(2);

/// The file, if there is one.
#[derive(Debug)]
pub(super) struct Statistics {
    file: Option<File>,
    written: Instant,
}

impl Statistics {
    /// Opens a file, to which lines are added.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let file = path.map(|path| {
            let file = File::options().append(true).create(true).open(path);
            file.map_err(io(path.display()))
        });
        Ok(Self {
            file: file.transpose()?,
            written: Instant::now(),
        })
    }

    /// Adds a line, if it is time for one.
    pub(super) fn write(&mut self, server: &Rtsp) {
        let Some(file) = &mut self.file else {
            return;
        };
        if self.written.elapsed() + EVERY / 4 < EVERY {
            return;
        }
        self.written = Instant::now();
        let mut line = to_json(server).to_string();
        line.push('\n');
        if let Err(error) = file.write_all(line.as_bytes()) {
            tracing::warn!(%error, "no statistics");
        }
    }
}

/// Totals since the start, so that a line that is missing costs no more than itself.
fn to_json(server: &Rtsp) -> Value {
    let counts = server.counts().into_iter();
    let mut line: Map<_, _> = counts
        .map(|(name, _, value)| (name.to_owned(), json!(value)))
        .collect();
    for metric in server.metrics().iter().filter(|metric| !metric.is_counter) {
        let name = metric.name.trim_start_matches("sangam_rtsp_");
        line.insert(name.to_owned(), json!(metric.value));
    }
    let standing = server.standing();
    line.insert("time_ns".to_owned(), json!(now()));
    line.insert("node".to_owned(), json!(server.films().own_node()));
    line.insert("cpu_user_s".to_owned(), json!(standing.user));
    line.insert("cpu_system_s".to_owned(), json!(standing.system));
    line.insert("cache_blocks".to_owned(), json!(standing.cache_blocks));
    line.insert("cache_hits".to_owned(), json!(standing.cache_hits));
    line.insert("disk_bytes".to_owned(), json!(standing.disk_bytes));
    Value::Object(line)
}
