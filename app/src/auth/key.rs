//! Keys of tokens: pairs of Ed25519 in PEM files, and shared secrets.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header};

use super::Claims;
use crate::config::{AuthKey, NamedKey, SECRET_LEN_MIN};
use crate::pem::{self, Pem};

/// A key file has some hundred bytes; more is another kind of file.
const FILE_LEN_MAX: u64 = 4_096;
/// Random bytes of a shared secret.
const SECRET_LEN: usize = 32;

/// A key that tells good tokens from others, for one algorithm.
pub(crate) struct VerifyingKey {
    kid: String,
    algorithm: Algorithm,
    key: DecodingKey,
}

/// A key that makes tokens.
pub(crate) struct SigningKey {
    kid: String,
    algorithm: Algorithm,
    key: EncodingKey,
}

/// Why there is no key.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum KeyError {
    /// The configuration names none.
    None,
    /// A file cannot be read.
    Io(PathBuf, std::io::Error),
    /// A file holds something else.
    Wrong(PathBuf, &'static str),
    /// The system or the library refuses.
    Failed(&'static str),
}

impl VerifyingKey {
    /// The key that the configuration names.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub(crate) fn of(key: &AuthKey) -> Result<Self, KeyError> {
        let named = match key {
            AuthKey::File(path) => return Self::read(path),
            AuthKey::Named(named) => named,
        };
        let key = match named {
            NamedKey {
                file: Some(file), ..
            } => Self::read(file)?,
            NamedKey { secret, .. } => Self::shared(secret.as_deref().unwrap_or_default()),
        };
        Ok(key.named(named.kid.clone()))
    }

    /// The same under another name, if there is one.
    pub(super) fn named(self, kid: Option<String>) -> Self {
        let kid = kid.unwrap_or(self.kid);
        Self { kid, ..self }
    }

    /// The key in a file: a public key, or a shared secret.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub(crate) fn read(path: &Path) -> Result<Self, KeyError> {
        let text = text_of(path)?;
        match pem::first(&text) {
            Some(Pem::PublicKey(spki)) => {
                let raw = pem::ed25519_of(&spki);
                let raw = raw.ok_or_else(|| wrong(path, "a public key that is not Ed25519"))?;
                Ok(Self {
                    kid: fingerprint(&raw),
                    algorithm: Algorithm::EdDSA,
                    key: DecodingKey::from_ed_der(&raw),
                })
            }
            Some(Pem::PrivateKey(_)) => Err(wrong(
                path,
                "the private half; brokers need the public one, which ends in .pub",
            )),
            Some(_) => Err(wrong(path, "no key")),
            None => secret_in(&text)
                .map(Self::shared)
                .ok_or_else(|| wrong(path, "neither a public key nor a shared secret")),
        }
    }

    pub(crate) fn kid(&self) -> &str {
        &self.kid
    }

    pub(super) fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    pub(super) fn decoding(&self) -> &DecodingKey {
        &self.key
    }

    fn shared(secret: &str) -> Self {
        Self {
            kid: fingerprint(secret.as_bytes()),
            algorithm: Algorithm::HS256,
            key: DecodingKey::from_secret(secret.as_bytes()),
        }
    }
}

impl SigningKey {
    /// The key in a file: a private key, or a shared secret.
    ///
    /// # Errors
    /// See [`KeyError`].
    pub(crate) fn read(path: &Path) -> Result<Self, KeyError> {
        let text = text_of(path)?;
        match pem::first(&text) {
            Some(Pem::PrivateKey(pkcs8)) => {
                let pair = Ed25519KeyPair::from_pkcs8(&pkcs8)
                    .map_err(|_| wrong(path, "a private key that is not Ed25519"))?;
                Ok(Self {
                    kid: fingerprint(pair.public_key().as_ref()),
                    algorithm: Algorithm::EdDSA,
                    key: EncodingKey::from_ed_der(&pkcs8),
                })
            }
            Some(Pem::PublicKey(_)) => Err(wrong(
                path,
                "the public half; tokens are made with the private one",
            )),
            Some(_) => Err(wrong(path, "no key")),
            None => {
                let secret = secret_in(&text);
                let secret = secret
                    .ok_or_else(|| wrong(path, "neither a private key nor a shared secret"))?;
                Ok(Self {
                    kid: fingerprint(secret.as_bytes()),
                    algorithm: Algorithm::HS256,
                    key: EncodingKey::from_secret(secret.as_bytes()),
                })
            }
        }
    }

    /// Both halves of a new shared secret that nobody else knows.
    ///
    /// # Errors
    /// The system gives no randomness.
    pub(crate) fn ephemeral() -> Result<(Self, VerifyingKey), KeyError> {
        let (secret, kid) = make_secret()?;
        let verifying = VerifyingKey::shared(&secret);
        let signing = Self {
            kid,
            algorithm: Algorithm::HS256,
            key: EncodingKey::from_secret(secret.as_bytes()),
        };
        Ok((signing, verifying))
    }

    pub(crate) fn kid(&self) -> &str {
        &self.kid
    }

    /// The same under another name, if there is one.
    pub(crate) fn named(self, kid: Option<String>) -> Self {
        let kid = kid.unwrap_or(self.kid);
        Self { kid, ..self }
    }

    /// A token that says this.
    ///
    /// # Errors
    /// The library refuses.
    pub(crate) fn sign(&self, claims: &Claims) -> Result<String, KeyError> {
        let mut header = Header::new(self.algorithm);
        header.kid = Some(self.kid.clone());
        jsonwebtoken::encode(&header, claims, &self.key)
            .map_err(|_| KeyError::Failed("the token cannot be signed"))
    }
}

/// A new pair in PEM: the private and the public half, and the name.
///
/// # Errors
/// The system gives no randomness.
pub(crate) fn make_pair() -> Result<(String, String, String), KeyError> {
    let failed = |_| KeyError::Failed("the system gives no random numbers");
    let pair = Ed25519KeyPair::generate().map_err(failed)?;
    let private: Pkcs8V1Der<'_> = pair.as_der().map_err(failed)?;
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(failed)?;
    let kid = fingerprint(pair.public_key().as_ref());
    let private = pem::write(pem::PRIVATE_KEY, private.as_ref());
    Ok((private, pem::write(pem::PUBLIC_KEY, public.as_ref()), kid))
}

/// A new shared secret, and its name.
///
/// # Errors
/// The system gives no randomness.
pub(crate) fn make_secret() -> Result<(String, String), KeyError> {
    let mut bytes = [0; SECRET_LEN];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| KeyError::Failed("the system gives no random numbers"))?;
    let secret = hex(&bytes);
    let kid = fingerprint(secret.as_bytes());
    Ok((secret, kid))
}

/// A name for a key that needs no agreement.
fn fingerprint(key: &[u8]) -> String {
    hex(&digest::digest(&digest::SHA256, key).as_ref()[..4])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn secret_in(text: &str) -> Option<&str> {
    let text = text.trim();
    let is_secret = text.len() >= SECRET_LEN_MIN && !text.contains(char::is_whitespace);
    is_secret.then_some(text)
}

fn text_of(path: &Path) -> Result<String, KeyError> {
    let io = |error| KeyError::Io(path.to_owned(), error);
    let mut text = String::new();
    let file = File::open(path).map_err(io)?;
    file.take(FILE_LEN_MAX)
        .read_to_string(&mut text)
        .map_err(io)?;
    Ok(text)
}

fn wrong(path: &Path, holds: &'static str) -> KeyError {
    KeyError::Wrong(path.to_owned(), holds)
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => {
                f.write_str("clients of this broker need tokens, but it has no auth.keys")
            }
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Wrong(path, holds) => write!(f, "{} holds {holds}", path.display()),
            Self::Failed(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for KeyError {}
