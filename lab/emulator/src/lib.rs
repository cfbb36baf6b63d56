//! Bad networks on one machine, at the level of IP, so that every protocol feels them: UDP, TCP,
//! QUIC, ping.
//!
//! ```no_run
//! use std::time::Duration;
//! use sangam_emulator::{Emulator, Loss, Quality, State};
//!
//! let network = Emulator::new(&["pune", "cardiff"], 7)?;
//! let bad = Quality {
//!     loss: Loss::Random(0.01),
//!     ..Quality::delayed(Duration::from_millis(45))
//! };
//! network.control().set_both(0, 1, &bad)?;
//! let mut broker = network.sites()[0].command("sangam").arg("serve").spawn()?;
//! network.control().set_state(0, 1, State::Blackhole)?;
//! # broker.kill()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each [`Site`] is a network namespace with a TUN device. One thread reads what leaves a site,
//! asks the [`Path`] from there to the packet's destination what becomes of it, and writes it
//! into the other site when its time has come. [`Path`] and [`Fabric`] are pure and live on
//! whatever time they are given; `engine.rs` is the thread, `site.rs` the namespaces, `sys.rs`
//! the system calls.
//!
//! **Nothing stays behind.** Namespaces and devices have no names on the host. The kernel takes
//! them away with the last descriptor and the last process, however the emulating process ends.
//! [`Site::path`] is for looking inside while it lives.
//!
//! **Addresses.** Site N is 10.(16+N).0.0/16 and one IPv6 address. Every address of the IPv4
//! network is the site's own ([`Site::host`]), as 127.0.0.0/8 is everybody's.
//!
//! **A local network.** [`Segment`] is hosts on one bridge, for what needs broadcasts or groups.
//!
//! **By hand.** `sangam-emulator near far` makes two sites, says how to enter them, and takes
//! lines such as `near far delay=45ms,loss=1%`.
//!
//! **What it needs.** Linux, /dev/net/tun, `ip`, and root or a user namespace that lends the
//! privileges: `unshare --user --map-root-user COMMAND`.
//!
//! **What it adds.** A packet wakes the thread, is copied twice and passes the network stack of
//! two namespaces; one that has to wait is up to 50 microseconds late besides, so that bursts cost
//! one sleep. `sangam bench run emulator` measures it. On two cores that were busy with other work
//! (21 November 2026): in the median 10 to 25 microseconds more than loopback at 1,000 and 10,000
//! packets/s, 60 to 100 if the packet waits, 99 % within 1 to 5 milliseconds, which are the
//! scheduler's; 100,000 packets/s take 0.5 to 0.9 of a core, and where that core is not to be had
//! they queue for milliseconds and then drop, which [`Site::missed`] tells.

mod address;
pub mod cities;
mod emulator;
mod engine;
mod error;
mod fabric;
mod namespace;
mod packet;
mod path;
mod privileges;
mod quality;
mod random;
mod segment;
mod site;
mod sys;
mod text;
mod trace;

pub use address::{HOSTS_MAX, SITES_MAX};
pub use emulator::{Control, Emulator};
pub use error::Error;
pub use fabric::{Fabric, IN_FLIGHT_MAX, Strays};
pub use path::{Cause, Counters, Fate, Path};
pub use privileges::with_privileges;
pub use quality::{
    DELAY_MAX, Delay, Jitter, Loss, MTU, MTU_MIN, Quality, Rate, Reordering, Shape, State,
};
pub use segment::{Host, Segment};
pub use site::{Site, shift_clock};
pub use trace::{Step, Trace};
