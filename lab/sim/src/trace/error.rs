//! What is wrong with a trace, so that whoever brought it can mend it.

use core::fmt;
use std::io;

/// Why a trace cannot be read or written.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceError {
    /// The file system's words.
    Io(io::Error),
    /// The file begins with something else.
    Foreign,
    /// A line of the text, counted from 1.
    Line {
        /// Its number.
        line: usize,
        /// What does not fit.
        text: String,
    },
    /// Nodes, links or sessions do not fit together.
    Overlay(String),
    /// The file ends too early.
    Truncated {
        /// The moments that were there.
        row: u64,
        /// The moments that its header promises.
        rows: u64,
    },
    /// A chunk is not what was written.
    Corrupt {
        /// The first moment of the chunk.
        row: u64,
    },
    /// A delay that cannot be.
    Delay {
        /// The link's name.
        link: String,
        /// The moment.
        row: u64,
        /// What is wrong with it.
        text: String,
    },
    /// A recording tells nothing of a link for too long.
    Gap {
        /// The link's name.
        link: String,
        /// The last moment before it, in ms.
        from_ms: f64,
        /// The first moment after it, in ms.
        to_ms: f64,
    },
    /// The smallest delays of a link rise or fall as where clocks drift apart.
    Drift {
        /// The link's name.
        link: String,
        /// By how many millionths of the time.
        ppm: f64,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Foreign => f.write_str(
                "this is no trace: it does not begin with `sangam-trace 1`; \
                 delays as text are imported with `sangam sim trace import`",
            ),
            Self::Line { line, text } => write!(f, "line {line}: {text}"),
            Self::Overlay(text) => f.write_str(text),
            Self::Truncated { row, rows } => write!(
                f,
                "the trace ends after {row} of {rows} moments: was it copied completely?"
            ),
            Self::Corrupt { row } => write!(
                f,
                "the chunk from moment {row} on is corrupt: its checksum does not fit"
            ),
            Self::Delay { link, row, text } => write!(f, "link {link}, moment {row}: {text}"),
            Self::Gap {
                link,
                from_ms,
                to_ms,
            } => write!(
                f,
                "link {link} has no delay between {from_ms} ms and {to_ms} ms: record it again, \
                 or import with `--gaps hold` (the delay stays) or `--gaps lost` (packets get lost)"
            ),
            Self::Drift { link, ppm } => write!(
                f,
                "link {link}: its smallest delays move by {ppm:+.1} millionths of the time, as \
                 where the clocks of both ends drift apart: import with `--clocks correct` (that \
                 is taken out) or `--clocks trust` (it is the network's)"
            ),
        }
    }
}

impl core::error::Error for TraceError {}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
