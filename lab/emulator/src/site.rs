//! A site: a network namespace with one TUN device, behind which the other sites are.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::address;
use crate::error::Error;
use crate::namespace::{self, Namespace};
use crate::quality::MTU;
use crate::sys;

/// Its device's name in its namespace.
const DEVICE: &str = "tun0";
/// Packets the kernel keeps until the emulator reads them: tens of milliseconds of the most that
/// it can carry, so that nothing is lost which no path lost.
const DEVICE_QUEUE: usize = 20_000;

/// A place with a network of its own. Cheap to clone; the namespace ends with the last clone and
/// the last process in it.
#[derive(Clone, Debug)]
pub struct Site(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    number: usize,
    name: String,
    namespace: Namespace,
}

impl Site {
    /// Makes the namespace and its device.
    pub(crate) fn new(number: usize, name: &str) -> Result<(Self, File), Error> {
        let (namespace, device) = Namespace::new(|| {
            let device = sys::new_tun(DEVICE).map_err(Error::Tun)?;
            namespace::ip(&batch(number))?;
            Ok(device)
        })?;
        let inner = Inner {
            number,
            name: name.to_owned(),
            namespace,
        };
        Ok((Self(Arc::new(inner)), device))
    }

    /// Its number, from 0: its place in the list the emulator was made of.
    #[must_use]
    pub fn number(&self) -> usize {
        self.0.number
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its address.
    #[must_use]
    pub fn v4(&self) -> Ipv4Addr {
        self.host(0)
    }

    /// Its IPv6 address.
    #[must_use]
    pub fn v6(&self) -> Ipv6Addr {
        address::v6(self.0.number)
    }

    /// Another IPv4 address of this site, below [`crate::HOSTS_MAX`]. All are there without
    /// being asked for, as those of 127.0.0.0/8 are.
    #[must_use]
    pub fn host(&self, number: usize) -> Ipv4Addr {
        address::v4(self.0.number, number)
    }

    /// The number of an address of this site.
    #[must_use]
    pub fn host_number(&self, address: Ipv4Addr) -> Option<usize> {
        address::host(self.0.number, address)
    }

    /// Does something inside: sockets that are opened there belong to the site and may be used
    /// from everywhere afterwards. Takes a thread of its own; it is no way to send packets.
    ///
    /// # Errors
    /// Those of `what`, or if the namespace cannot be entered.
    pub fn enter<T: Send>(&self, what: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.0.namespace.enter(what)
    }

    /// Packets that left a host and were dropped before the emulator could read them, as it was
    /// too slow: nothing that a path did. What it says otherwise holds only while this is zero.
    ///
    /// # Errors
    /// If the kernel's counters cannot be read.
    pub fn missed(&self) -> io::Result<u64> {
        let text = self.enter(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
        let unknown = || io::Error::new(io::ErrorKind::InvalidData, "no counters of the device");
        dropped(&text).ok_or_else(unknown)
    }

    /// A command that will run inside.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        self.place(&mut command);
        command
    }

    /// Lets a command run inside.
    pub fn place(&self, command: &mut Command) {
        self.0.namespace.place(command);
    }

    /// Where the namespace is found while this process lives, for `nsenter --net=PATH`.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.0.namespace.path()
    }
}

/// Lets a command run with another clock: CLOCK_MONOTONIC and CLOCK_BOOTTIME are ahead of the
/// host's by `ahead`, the time of day is not. Needs Linux 5.6 and the privilege to make time
/// namespaces; without, starting the command fails.
pub fn shift_clock(command: &mut Command, ahead: Duration) {
    let (s, ns) = (ahead.as_secs(), ahead.subsec_nanos());
    sys::start_with_clock(command, format!("monotonic {s} {ns}\nboottime {s} {ns}\n"));
}

fn batch(number: usize) -> String {
    let (v4, v6) = (address::v4(number, 0), address::v6(number));
    let mut network = v4.octets();
    (network[2], network[3]) = (0, 0);
    let network = Ipv4Addr::from(network);
    let mut text = format!(
        "link set lo up\n\
         link set {DEVICE} mtu {MTU} txqueuelen {DEVICE_QUEUE} up\n\
         address add {v4}/32 dev {DEVICE}\n\
         route add local {network}/16 dev lo\n\
         route add 0.0.0.0/0 dev {DEVICE} src {v4}\n"
    );
    // A host without IPv6 has no such file, and its sites have IPv4 alone.
    if File::open("/proc/thread-self/net/if_inet6").is_ok() {
        let _ = write!(
            text,
            "address add {v6}/128 dev {DEVICE} nodad\n\
             route add ::/0 dev {DEVICE} src {v6}\n"
        );
    }
    text
}

/// The twelfth number of the device's line: packets dropped on their way out.
fn dropped(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(DEVICE));
    line?.split_ascii_whitespace().nth(12)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_packets_are_read_from_the_kernels_table() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop ...\n\
                    \x20   lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
                    \x20 tun0: 1 2 3 4 5 6 7 8 9 10 11 77 13 14 15 16\n";
        assert_eq!(dropped(text), Some(77));
        assert_eq!(dropped("Inter-|\n"), None);
    }
}
