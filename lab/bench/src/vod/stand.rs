//! Where servers and viewers are: on loopback, on hosts of one network whose servers' devices send
//! no faster than a cap, or at two sites with a bad network between them.

use std::ffi::OsStr;
use std::io;
use std::net::Ipv4Addr;
use std::process::Command;

use sangam_emulator::{Emulator, Quality, Segment, Site};

use crate::error::Error;

/// Viewers have an address each: this network's, beside loopback or the segment's.
const LOOPBACK: [u8; 2] = [127, 32];
const SEGMENT: [u8; 2] = [10, 14];
/// A token bucket's depth in bytes, and how long its queue may become: what a switch's port holds.
const BUCKET: &str = "32kb";
const QUEUE: &str = "50ms";

/// The places of one run. Everything it made ends with it.
pub(crate) struct Stand(Place);

enum Place {
    Loopback,
    /// The first host is the viewers'.
    Segment(Segment),
    /// The first site is the viewers', the second the server's.
    Sites(Box<Emulator>),
}

const SEED: u64 = 5;

impl Stand {
    /// Everything on loopback, as fast as the machine.
    pub(crate) const fn loopback() -> Self {
        Self(Place::Loopback)
    }

    /// One server, and viewers at another site behind a path of this quality.
    ///
    /// # Errors
    /// [`Error::Network`] if sites cannot be had.
    pub(crate) fn apart(quality: &Quality) -> Result<Self, Error> {
        let network = Emulator::new(&["viewers", "server"], SEED).map_err(Error::Network)?;
        let set = network.control().set_both(0, 1, quality);
        set.map_err(Error::Network)?;
        Ok(Self(Place::Sites(Box::new(network))))
    }

    /// Hosts for so many servers.
    ///
    /// # Errors
    /// [`Error::Network`] if hosts cannot be had, [`Error::System`] if their ways to viewers
    /// cannot.
    pub(crate) fn hosts(servers: usize) -> Result<Self, Error> {
        let segment = Segment::new(servers + 1).map_err(Error::Network)?;
        let [a, b] = SEGMENT;
        let viewers = format!("{a}.{b}.0.0/16");
        let way = segment.hosts()[0].v4().to_string();
        let local = ["route", "add", "local", &viewers, "dev", "lo"];
        run(segment.hosts()[0].command("ip").args(local))?;
        for host in &segment.hosts()[1..] {
            run(host
                .command("ip")
                .args(["route", "add", &viewers, "via", &way]))?;
        }
        Ok(Self(Place::Segment(segment)))
    }

    /// From now on each host of a server sends at most so many megabits per second, headers
    /// included, by the kernel's token bucket. Nothing happens where servers have no hosts.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel refuses.
    pub(crate) fn cap(&self, mbps: u32) -> Result<(), Error> {
        let Place::Segment(segment) = &self.0 else {
            return Ok(());
        };
        for host in &segment.hosts()[1..] {
            let rate = format!("{mbps}mbit");
            let cap = [
                "qdisc",
                "add",
                "dev",
                host.device(),
                "root",
                "tbf",
                "rate",
                &rate,
            ];
            let bucket = ["burst", BUCKET, "latency", QUEUE];
            run(host.command("tc").args(cap).args(bucket))?;
        }
        Ok(())
    }

    /// Whether a server has a host, and so all ports, of its own.
    pub(crate) const fn has_hosts(&self) -> bool {
        !matches!(self.0, Place::Loopback)
    }

    /// The address that a server listens on, by its number from 0.
    pub(crate) fn address(&self, number: usize) -> Ipv4Addr {
        match &self.0 {
            Place::Loopback => Ipv4Addr::LOCALHOST,
            Place::Segment(segment) => segment.hosts()[number + 1].v4(),
            Place::Sites(network) => network.sites()[1].v4(),
        }
    }

    /// The address of a viewer, by its number from 0.
    pub(crate) fn viewer(&self, number: usize) -> Ipv4Addr {
        let [a, b] = match &self.0 {
            Place::Loopback => LOOPBACK,
            Place::Segment(_) => SEGMENT,
            // The first of a site is its own.
            Place::Sites(network) => return network.sites()[0].host(number + 1),
        };
        // The first and the last of a network are no host's.
        let [c, d] = (number as u16 + 1).to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    }

    /// A viewer's number.
    pub(crate) fn number(&self, address: Ipv4Addr) -> usize {
        let first = u32::from(self.viewer(0));
        u32::from(address).wrapping_sub(first) as usize
    }

    /// Does something where the viewers are.
    pub(crate) fn among_viewers<T: Send>(
        &self,
        what: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        match &self.0 {
            Place::Loopback => what(),
            Place::Segment(segment) => segment.hosts()[0].enter(what),
            Place::Sites(network) => network.sites()[0].enter(what),
        }
    }

    /// A command where a server is.
    pub(crate) fn command(&self, number: usize, program: impl AsRef<OsStr>) -> Command {
        match &self.0 {
            Place::Loopback => Command::new(program),
            Place::Segment(segment) => segment.hosts()[number + 1].command(program),
            Place::Sites(network) => network.sites()[1].command(program),
        }
    }

    /// Packets that the path to the viewers lost, and those for which the emulator was too slow.
    ///
    /// # Errors
    /// [`Error::Network`] if there is no emulator.
    pub(crate) fn lost(&self) -> Result<(u64, u64), Error> {
        let Place::Sites(network) = &self.0 else {
            return Err(Error::Network(sangam_emulator::Error::Gone));
        };
        let counters = network.control().counters(1, 0).map_err(Error::Network)?;
        let missed = network
            .sites()
            .iter()
            .filter_map(|site| Site::missed(site).ok());
        Ok((counters.lost, missed.sum()))
    }
}

fn run(command: &mut Command) -> Result<(), Error> {
    let output = command.output();
    let output = output.map_err(|error| Error::System("starting ip or tc (iproute2)", error))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::System(
        "a host of the network",
        io::Error::other(words),
    ))
}
