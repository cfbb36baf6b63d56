//! One segment: hosts on one bridge, each a network namespace with an Ethernet device.
//!
//! Unlike sites they hear each other's broadcasts and groups: what [`crate::Emulator`] is to a wide
//! area, this is to a local one.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;

use crate::error::Error;
use crate::namespace::{self, Namespace};

/// The device of every host.
const DEVICE: &str = "eth0";
/// Hosts of one segment: a byte of their addresses, without the first and the last.
const HOSTS_MAX: usize = 254;

/// Hosts, and the bridge between them. Everything it made ends with it.
#[derive(Debug)]
pub struct Segment {
    bridge: Namespace,
    hosts: Vec<Host>,
}

/// One host.
#[derive(Clone, Debug)]
pub struct Host {
    number: usize,
    namespace: Namespace,
}

impl Segment {
    /// So many hosts on one bridge that floods what goes to groups, as a plain switch does.
    ///
    /// # Errors
    /// [`Error::Namespace`] and [`Error::Setup`] say what this machine or this user lacks.
    pub fn new(hosts: usize) -> Result<Self, Error> {
        if !(1..=HOSTS_MAX).contains(&hosts) {
            return Err(Error::Sites(hosts));
        }
        let set_up = "link add bridge type bridge mcast_snooping 0\nlink set bridge up\n";
        let (bridge, ()) = Namespace::new(|| namespace::ip(set_up))?;
        let hosts = (0..hosts).map(|number| Host::new(number, &bridge));
        Ok(Self {
            hosts: hosts.collect::<Result<_, _>>()?,
            bridge,
        })
    }

    /// All hosts, by number.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Whether the bridge passes groups on to a host; what goes to it alone always arrives.
    ///
    /// # Errors
    /// [`Error::Setup`].
    pub fn pass_groups(&self, host: usize, pass: bool) -> Result<(), Error> {
        let pass = if pass { "on" } else { "off" };
        let batch = format!("link set dev port{host} mcast_flood {pass}\n");
        let changed = self.bridge.enter(|| Ok(namespace::run("bridge", &batch)));
        changed.map_err(|error| Error::System("entering a namespace", error))?
    }
}

impl Host {
    fn new(number: usize, bridge: &Namespace) -> Result<Self, Error> {
        let (namespace, ()) = Namespace::new(|| namespace::ip("link set lo up\n"))?;
        let host = Self { number, namespace };
        let entered = |error| Error::System("entering a namespace", error);
        let path = host.namespace.path();
        let cable = format!(
            "link add port{number} type veth peer name {DEVICE} netns {}\n\
             link set port{number} master bridge up\n",
            path.display()
        );
        bridge
            .enter(|| Ok(namespace::ip(&cable)))
            .map_err(entered)??;
        let (v4, v6) = (host.v4(), host.v6());
        let addresses = format!(
            "link set {DEVICE} up\n\
             address add {v4}/24 dev {DEVICE}\n\
             address add {v6}/64 dev {DEVICE} nodad\n"
        );
        (host.namespace)
            .enter(|| Ok(namespace::ip(&addresses)))
            .map_err(entered)??;
        Ok(host)
    }

    /// Its IPv4 address.
    #[must_use]
    pub fn v4(&self) -> Ipv4Addr {
        Ipv4Addr::new(10, 15, 0, self.number as u8 + 1)
    }

    /// Its IPv6 address.
    #[must_use]
    pub fn v6(&self) -> Ipv6Addr {
        Ipv6Addr::new(
            0xfd73,
            0x616e,
            0x6761,
            0xfffe,
            0,
            0,
            0,
            self.number as u16 + 1,
        )
    }

    /// The name of its device.
    #[must_use]
    pub fn device(&self) -> &'static str {
        DEVICE
    }

    /// Does something inside, in a thread of its own: sockets that are opened and threads that are
    /// begun there belong to the host.
    ///
    /// # Errors
    /// Those of `what`, or if the namespace cannot be entered.
    pub fn enter<T: Send>(&self, what: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.namespace.enter(what)
    }

    /// A command that will run inside.
    #[must_use]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        self.namespace.place(&mut command);
        command
    }

    /// Bytes that left its device so far, headers included.
    ///
    /// # Errors
    /// If the kernel's counters cannot be read.
    pub fn sent(&self) -> io::Result<u64> {
        let text = self.enter(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
        let unknown = || io::Error::new(io::ErrorKind::InvalidData, "no counters of the device");
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.trim().strip_prefix(DEVICE));
        // The ninth number of the line, behind the colon.
        let bytes = line.and_then(|line| line.split_ascii_whitespace().nth(9)?.parse().ok());
        bytes.ok_or_else(unknown)
    }
}
