//! Where a film's bytes go.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::exit::{self, Exit, Failure};

/// A file, standard output, or nothing: then only the figures count.
pub(super) enum Sink {
    Nothing,
    Pipe(BufWriter<io::Stdout>),
    File(BufWriter<File>, String),
}

impl Sink {
    /// Opens what `--out` names; `-` is standard output.
    pub(super) fn open(out: Option<&Path>, json: bool) -> Result<Self, Failure> {
        let Some(path) = out else {
            return Ok(Self::Nothing);
        };
        if path == Path::new("-") {
            if json {
                let message = "--json and --out - both write to standard output";
                return Err(Failure::new(Exit::Usage, message).hint("name a file"));
            }
            return Ok(Self::Pipe(BufWriter::new(io::stdout())));
        }
        let name = path.display().to_string();
        let file = File::create(path).map_err(exit::io(&name))?;
        Ok(Self::File(BufWriter::new(file), name))
    }

    /// Whether standard output is free.
    pub(super) const fn is_beside(&self) -> bool {
        !matches!(self, Self::Pipe(_))
    }

    /// Writes what is played.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Nothing => Ok(()),
            Self::Pipe(pipe) => pipe.write_all(bytes).map_err(exit::io("standard output")),
            Self::File(file, name) => file.write_all(bytes).map_err(exit::io(&*name)),
        }
    }

    /// Writes what waits.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        match self {
            Self::Nothing => Ok(()),
            Self::Pipe(pipe) => pipe.flush().map_err(exit::io("standard output")),
            Self::File(file, name) => file.flush().map_err(exit::io(&*name)),
        }
    }
}
