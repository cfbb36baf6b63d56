//! What a network did: the delays of its links every 10 ms, the same for every method.
//!
//! [`Family`] generates networks from seeds, [`Writer`] and [`Reader`] keep them in files with
//! hashes, [`import`] takes what others measured. docs/spec/traces.md describes the files and the
//! generators.

mod clocks;
mod columns;
mod data;
mod error;
mod family;
mod file;
mod generate;
mod import;
mod known;
mod noise;
mod overlay;
mod text;

use core::time::Duration;

pub use clocks::{Clocks, Correction};
pub use columns::Columns;
pub use error::TraceError;
pub use family::{Family, Generator};
pub use file::{Reader, Writer};
pub use generate::Source;
pub use import::{Gaps, Imported, Importing, import};
pub use known::{KNOWN_ROWS, KNOWN_ROWS_WHOLE, known_hash};
pub use overlay::{LINKS_MAX, Link, NODES_MAX, Overlay, SESSIONS_MAX, Session};

/// Between two moments of a trace, and between two packets of a session.
pub const STEP: Duration = Duration::from_millis(10);
/// Moments of a chunk: what is read, generated and simulated at once.
pub const CHUNK_ROWS: usize = 1_000;
/// The longest one-way delay of a link that a trace may hold, in microseconds.
pub const DELAY_US_MAX: u32 = 10_000_000;
/// Stands for the delay of a packet that the link loses.
pub const LOST: u32 = u32::MAX;
