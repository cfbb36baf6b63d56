//! What can go wrong, in words that say what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why an emulated network cannot be had.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Network namespaces cannot be made.
    Namespace(io::Error),
    /// A TUN device cannot be made.
    Tun(io::Error),
    /// `ip` could not set up a site; its own words.
    Setup(String),
    /// A system call failed.
    System(&'static str, io::Error),
    /// More sites than there are addresses for, or none.
    Sites(usize),
    /// No site of this number.
    NoSite(usize),
    /// The emulating thread is gone.
    Gone,
    /// A property of a path is out of range.
    Quality(&'static str),
    /// A word that is none of a quality's properties and no site.
    Property(String),
    /// A trace makes no sense.
    Trace(String),
    /// A file could not be read.
    File(PathBuf, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(error) => write!(
                f,
                "no network namespace can be made ({error}): run as root, or let a user namespace \
                 lend the privileges: `unshare --user --map-root-user COMMAND`"
            ),
            Self::Tun(error) if error.kind() == io::ErrorKind::NotFound => write!(
                f,
                "there is no /dev/net/tun: load it with `modprobe tun`; a container needs \
                 `--device /dev/net/tun`"
            ),
            Self::Tun(error) => write!(
                f,
                "/dev/net/tun makes no device ({error}): run as root; a container needs \
                 `--cap-add NET_ADMIN --device /dev/net/tun`"
            ),
            Self::Setup(words) => write!(
                f,
                "`ip` could not set up a site: {words} (it is in Debian's iproute2)"
            ),
            Self::System(what, error) => write!(f, "{what}: {error}"),
            Self::Sites(count) => {
                let most = crate::address::SITES_MAX;
                write!(f, "{count} sites: there can be 1 to {most}")
            }
            Self::NoSite(number) => write!(f, "there is no site {number}"),
            Self::Gone => f.write_str("the emulating thread has ended"),
            Self::Quality(text) => f.write_str(text),
            Self::Property(word) => write!(
                f,
                "{word:?} is not understood: a site's name, or properties such as \
                 delay=45ms,jitter=5ms,loss=1%,rate=10M,mtu=1300,cut"
            ),
            Self::Trace(text) => write!(f, "the trace: {text}"),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for Error {}
