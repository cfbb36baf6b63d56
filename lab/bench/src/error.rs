//! What can go wrong, in words that say what to do.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a bench run ended early.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum Error {
    /// No experiment of this name.
    Unknown(String),
    /// An option outside its range.
    Option(String),
    /// A file could not be read or written.
    File(PathBuf, io::Error),
    /// A socket or another system call failed.
    System(&'static str, io::Error),
    /// A broker did not start, or died.
    Broker(String),
    /// The simulator is not there, or said something else than was asked.
    Simulator(String),
    /// Participants did not join in time.
    Join(String),
    /// The emulated network cannot be had.
    Network(sangam_emulator::Error),
    /// A report could not be encoded.
    Report(String),
}

impl Error {
    /// A file error with its path.
    pub(crate) fn file(path: &Path, error: io::Error) -> Self {
        Self::File(path.to_owned(), error)
    }

    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Unknown(_) | Self::Option(_) => 2,
            _ => 1,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => {
                write!(
                    f,
                    "there is no experiment `{name}`; `sangam bench list` names them all"
                )
            }
            Self::Option(text) | Self::Broker(text) | Self::Join(text) | Self::Simulator(text) => {
                f.write_str(text)
            }
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::System(what, error) => write!(f, "{what}: {error}"),
            Self::Network(error) => write!(f, "the emulated network: {error}"),
            Self::Report(text) => write!(f, "the report could not be written: {text}"),
        }
    }
}

impl std::error::Error for Error {}
