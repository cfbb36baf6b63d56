//! Files that must not be lost or seen: written whole, for their owner only if they are secret,
//! and never over something else.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::exit::{Exit, Failure};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Its owner: a key.
    Owner,
    /// Everybody: a certificate or public key.
    All,
}

/// Refuses if any of these files exists, unless `force`d: to be asked before the first is written.
///
/// # Errors
/// Which one is there.
pub(crate) fn nothing_there<'a>(
    files: impl IntoIterator<Item = &'a PathBuf>,
    force: bool,
) -> Result<(), Failure> {
    for file in files {
        if !force && file.symlink_metadata().is_ok() {
            let message = format!("{} exists already", file.display());
            return Err(Failure::new(Exit::Failure, message)
                .hint("choose another place, or add --force to overwrite it"));
        }
    }
    Ok(())
}

/// Writes a file whole or not at all: beside, flushed to the disk, renamed, and the folder
/// flushed.
///
/// # Errors
/// What the system says.
pub(crate) fn write(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    match fs::remove_file(beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        // Left over by a run that was cut short, with whatever rights it had.
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.create_new(true).write(true).mode(match readers {
        Readers::Owner => 0o600,
        Readers::All => 0o644,
    });
    let mut file = options.open(beside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(beside, path)?;
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_for_its_owner_even_over_a_file_that_was_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        write(&path, b"old", Readers::All).unwrap();
        assert!(nothing_there([&path], false).is_err());
        assert!(nothing_there([&path], true).is_ok());
        write(&path, b"new", Readers::Owner).unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(
            (mode & 0o777, fs::read(&path).unwrap()),
            (0o600, b"new".to_vec())
        );
    }
}
