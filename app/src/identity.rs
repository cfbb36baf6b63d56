//! Who this broker is: an Ed25519 key that it keeps, and how often it has started.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use sangam_model::{BrokerId, Incarnation};

use crate::keep::{self, Readers};
use crate::pem::{self, Pem};

/// The key, in PKCS#8: as PEM, or as DER where an early release made it.
pub(crate) const KEY_FILE: &str = "broker.key";
const COUNTER_FILE: &str = "incarnation";
const LOCK_FILE: &str = "lock";
const NO_KEY: &str = "no Ed25519 key in PKCS#8 form";
/// A PKCS#8 Ed25519 key has 83 bytes or less, 200 as text; more is another kind of file.
const KEY_LEN_MAX: u64 = 1_024;

/// The identity of one start of a broker; holds the lock of its folder as long as it lives.
#[derive(Debug)]
pub(crate) struct Identity {
    /// First 32 bits of the SHA-256 of the public key.
    pub(crate) id: BrokerId,
    /// Number of this start modulo 256.
    pub(crate) incarnation: Incarnation,
    /// Whether it is forgotten at the end.
    pub(crate) ephemeral: bool,
    _lock: Option<File>,
}

/// Why there is no identity.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum IdentityError {
    /// A file or folder could not be used.
    Io(PathBuf, io::Error),
    /// Another process uses the folder.
    InUse(PathBuf),
    /// A file holds something else.
    Damaged(PathBuf, &'static str),
    /// The system gave no randomness.
    Randomness,
}

impl Identity {
    /// An identity that nobody will see again.
    ///
    /// # Errors
    /// [`IdentityError::Randomness`].
    pub(crate) fn ephemeral() -> Result<Self, IdentityError> {
        let key = Ed25519KeyPair::generate().map_err(|_| IdentityError::Randomness)?;
        let (id, incarnation) = (id_of(key.public_key().as_ref()), Incarnation(0));
        Ok(Self {
            id,
            incarnation,
            ephemeral: true,
            _lock: None,
        })
    }

    /// The identity kept in `folder`, made at the first start; counts this start.
    ///
    /// # Errors
    /// See [`IdentityError`].
    pub(crate) fn kept(folder: &Path) -> Result<Self, IdentityError> {
        fs::create_dir_all(folder).map_err(at(folder))?;
        let lock = lock(&folder.join(LOCK_FILE))?;
        let path = folder.join(KEY_FILE);
        let key = Ed25519KeyPair::from_pkcs8(&key(&path)?)
            .map_err(|_| IdentityError::Damaged(path, NO_KEY))?;
        let starts = count(&folder.join(COUNTER_FILE))?;
        let incarnation = Incarnation((starts % 256) as u8);
        Ok(Self {
            id: id_of(key.public_key().as_ref()),
            incarnation,
            ephemeral: false,
            _lock: Some(lock),
        })
    }
}

/// The broker whose Ed25519 public key this is.
pub(crate) fn id_of(public_key: &[u8]) -> BrokerId {
    let hash = digest::digest(&digest::SHA256, public_key);
    let first = hash.as_ref().first_chunk().copied().unwrap_or_default();
    BrokerId(u32::from_be_bytes(first))
}

fn lock(path: &Path) -> Result<File, IdentityError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(path).map_err(at(path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(IdentityError::InUse(
            path.parent().unwrap_or(path).to_owned(),
        )),
        Err(TryLockError::Error(error)) => Err(IdentityError::Io(path.to_owned(), error)),
    }
}

/// The key in a broker's folder in PKCS#8, made if there is none. The file is PEM from now on,
/// which TLS needs.
///
/// # Errors
/// See [`IdentityError`].
pub(crate) fn key_for_tls(folder: &Path) -> Result<Vec<u8>, IdentityError> {
    fs::create_dir_all(folder).map_err(at(folder))?;
    let path = folder.join(KEY_FILE);
    let key = key(&path)?;
    let text = pem::write(pem::PRIVATE_KEY, &key);
    if read(&path)?.is_some_and(|bytes| bytes != text.as_bytes()) {
        write(&path, text.as_bytes())?;
    }
    Ok(key)
}

/// The key in PKCS#8, made if there is none.
fn key(path: &Path) -> Result<Vec<u8>, IdentityError> {
    if let Some(bytes) = read(path)? {
        let text = str::from_utf8(&bytes).ok();
        let der = match text.and_then(pem::first) {
            Some(Pem::PrivateKey(der)) => der,
            _ => bytes,
        };
        return match Ed25519KeyPair::from_pkcs8(&der) {
            Ok(_) => Ok(der),
            Err(_) => Err(IdentityError::Damaged(path.to_owned(), NO_KEY)),
        };
    }
    let made = Ed25519KeyPair::generate().and_then(|key| key.to_pkcs8v1());
    let made = made.map_err(|_| IdentityError::Randomness)?;
    write(path, pem::write(pem::PRIVATE_KEY, made.as_ref()).as_bytes())?;
    Ok(made.as_ref().to_vec())
}

/// Adds one to the counter and keeps it, before anything is sent under the new number.
fn count(path: &Path) -> Result<u64, IdentityError> {
    let damaged = || IdentityError::Damaged(path.to_owned(), "no number");
    let before = match read(path)? {
        Some(bytes) => {
            let text = std::str::from_utf8(&bytes).map_err(|_| damaged())?;
            text.trim().parse::<u64>().map_err(|_| damaged())?
        }
        None => 0,
    };
    let now = before.wrapping_add(1);
    write(path, format!("{now}\n").as_bytes())?;
    Ok(now)
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, IdentityError> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(IdentityError::Io(path.to_owned(), error)),
    };
    let mut bytes = Vec::new();
    file.take(KEY_LEN_MAX)
        .read_to_end(&mut bytes)
        .map_err(at(path))?;
    Ok(Some(bytes))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), IdentityError> {
    keep::write(path, bytes, Readers::Owner).map_err(at(path))
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> IdentityError {
    let path = path.to_owned();
    move |error| IdentityError::Io(path, error)
}

impl std::fmt::Display for IdentityError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(path, error) => write!(
                f,
                "{}: {error}; set broker.data_dir to a folder this user may write",
                path.display()
            ),
            Self::InUse(path) => write!(
                f,
                "{} is used by another broker; give each its own broker.data_dir",
                path.display()
            ),
            Self::Damaged(path, what) => write!(
                f,
                "{} holds {what}; restore it, or remove it to start as a new broker",
                path.display()
            ),
            Self::Randomness => f.write_str("the system gave no random numbers for a key"),
        }
    }
}

impl std::error::Error for IdentityError {}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_broker_keeps_its_id_and_counts_its_starts() {
        let folder = tempfile::tempdir().unwrap();
        let first = Identity::kept(folder.path()).unwrap();
        let (id, incarnation) = (first.id, first.incarnation);
        drop(first);
        let second = Identity::kept(folder.path()).unwrap();
        assert_eq!(second.id, id);
        assert_eq!(second.incarnation.0, incarnation.0 + 1);
    }

    #[test]
    fn a_key_that_an_early_release_made_stays_the_same_as_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(KEY_FILE);
        let old = Ed25519KeyPair::generate().unwrap();
        fs::write(&path, old.to_pkcs8().unwrap().as_ref()).unwrap();
        let id = id_of(old.public_key().as_ref());
        assert_eq!(Identity::kept(folder.path()).unwrap().id, id);
        key_for_tls(folder.path()).unwrap();
        assert!(
            fs::read_to_string(&path)
                .unwrap()
                .starts_with("-----BEGIN PRIVATE KEY")
        );
        assert_eq!(Identity::kept(folder.path()).unwrap().id, id);
    }

    #[test]
    fn the_key_is_for_its_owner_only() {
        let folder = tempfile::tempdir().unwrap();
        Identity::kept(folder.path()).unwrap();
        let mode = fs::metadata(folder.path().join(KEY_FILE))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn two_brokers_cannot_share_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let _first = Identity::kept(folder.path()).unwrap();
        let error = Identity::kept(folder.path()).unwrap_err();
        assert!(
            error.to_string().contains("its own broker.data_dir"),
            "{error}"
        );
    }

    #[test]
    fn a_damaged_key_is_never_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(KEY_FILE);
        fs::write(&path, "not a key").unwrap();
        let error = Identity::kept(folder.path()).unwrap_err();
        assert!(matches!(error, IdentityError::Damaged(..)), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"not a key");
    }

    #[test]
    fn ephemeral_brokers_differ() {
        let (one, other) = (
            Identity::ephemeral().unwrap(),
            Identity::ephemeral().unwrap(),
        );
        assert_ne!(one.id, other.id);
    }
}
