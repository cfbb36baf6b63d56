//! Both ends of a connection prove that they have the archive's key.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use aws_lc_rs::{hmac, rand};

const MAGIC: [u8; 12] = *b"SANGAM NOD\x00\x01";
const NONCE_LEN: usize = 32;
const PROOF_LEN: usize = 32;
/// What is proved, so that one end's proof is never the other's.
const CALLER: &[u8] = b"caller";
const CALLED: &[u8] = b"called";
/// Digits of a key in its file.
const DIGITS: usize = 64;

/// What the nodes of an archive know and nobody else: 32 bytes.
#[derive(Clone)]
pub struct Key(hmac::Key);

impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// The key in a file: 64 hexadecimal digits.
    ///
    /// # Errors
    /// The file cannot be read, or has none.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let text = text.trim();
        let digit = |at: usize| u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..DIGITS / 2).map(digit).collect();
        match bytes.filter(|_| text.len() == DIGITS) {
            Some(bytes) => Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes))),
            None => Err(io::Error::new(
                ErrorKind::InvalidData,
                "a key of nodes has 64 hexadecimal digits",
            )),
        }
    }

    /// Makes a key and keeps it in a file that only its owner reads.
    ///
    /// # Errors
    /// Of the file, which may be there already, or of the system's random numbers.
    pub fn make(path: &Path) -> io::Result<Self> {
        let bytes: [u8; DIGITS / 2] = random()?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        writeln!(file, "{text}")?;
        file.sync_all()?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes)))
    }

    fn prove(&self, who: &[u8], nonces: [&[u8]; 2]) -> hmac::Tag {
        hmac::sign(&self.0, &[who, nonces[0], nonces[1]].concat())
    }

    fn check(&self, who: &[u8], nonces: [&[u8]; 2], proof: &[u8]) -> io::Result<()> {
        let said = [who, nonces[0], nonces[1]].concat();
        let checked = hmac::verify(&self.0, &said, proof);
        checked.map_err(|_| {
            let message = "the other node has another key (nodes.key)";
            io::Error::new(ErrorKind::PermissionDenied, message)
        })
    }

    /// The caller's part.
    ///
    /// # Errors
    /// [`ErrorKind::PermissionDenied`]: another key; [`ErrorKind::InvalidData`]: no node.
    pub(super) fn call(&self, stream: &mut (impl Read + Write)) -> io::Result<()> {
        let (mut magic, mut theirs) = ([0; MAGIC.len()], [0; NONCE_LEN]);
        stream.read_exact(&mut magic)?;
        if magic != MAGIC {
            let message = "no node of an archive, or one of another version";
            return Err(io::Error::new(ErrorKind::InvalidData, message));
        }
        stream.read_exact(&mut theirs)?;
        let own: [u8; NONCE_LEN] = random()?;
        let proof = self.prove(CALLER, [&theirs, &own]);
        stream.write_all(&[&MAGIC[..], &own, proof.as_ref()].concat())?;
        let mut proof = [0; PROOF_LEN];
        let read = stream.read_exact(&mut proof);
        // It hangs up on a wrong proof.
        read.map_err(|_| io::Error::new(ErrorKind::PermissionDenied, "the key was refused"))?;
        self.check(CALLED, [&own, &theirs], &proof)
    }

    /// The part of the one who is called.
    ///
    /// # Errors
    /// As [`Key::call`].
    pub(super) fn answer(&self, stream: &mut (impl Read + Write)) -> io::Result<()> {
        let own: [u8; NONCE_LEN] = random()?;
        stream.write_all(&[&MAGIC[..], &own].concat())?;
        let mut said = [0; MAGIC.len() + NONCE_LEN + PROOF_LEN];
        stream.read_exact(&mut said)?;
        let (magic, rest) = said.split_at(MAGIC.len());
        let (theirs, proof) = rest.split_at(NONCE_LEN);
        if magic != MAGIC {
            return Err(ErrorKind::InvalidData.into());
        }
        self.check(CALLER, [&own, theirs], proof)?;
        stream.write_all(self.prove(CALLED, [theirs, &own]).as_ref())
    }
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = rand::fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(bytes)
}
