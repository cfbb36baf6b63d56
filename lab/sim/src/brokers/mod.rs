//! A network of brokers on virtual time: each is the real core (routing, streams, snapshots,
//! duplicate windows), driven as the broker's control and lane drive it. Nothing here reads a
//! clock or opens a socket, and all chance comes from a seed, so a history replays exactly.
//!
//! [`Network`] is brokers and wires; [`Topology`] draws graphs, [`Sessions`] places publishers
//! and listeners, [`World`] disturbs everything, [`check`] names what must hold, and [`study`]
//! measures.
//!
//! ```
//! use core::time::Duration;
//! use sangam_sim::brokers::{Network, Path, check};
//! use sangam_model::{Filter, Topic};
//!
//! let mut network = Network::new(2, 7);
//! network.link(0, 1, Path::of_delay(Duration::from_millis(5)));
//! network.subscribe(1, &Filter::new("demo/#")?);
//! let stream = network.publish(0, &Topic::new("demo/room/audio")?).unwrap();
//! network.run(Duration::from_secs(1));
//! network.emit(0, stream, 1);
//! network.run(Duration::from_secs(1));
//! assert_eq!(network.traffic.delivered[&(stream, 1, 1)], 1);
//! check::maps_agree(&network)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod broker;
pub mod check;
mod network;
pub mod sessions;
pub mod study;
mod topology;
mod traffic;
mod wire;
mod world;

pub use broker::{Broker, Event, id_of, index_of};
pub use check::Fault;
pub use network::Network;
pub use sessions::{Published, Sessions};
pub use topology::{Shape, Topology};
pub use traffic::Traffic;
pub use wire::{Cost, Path};
pub use world::{Plan, World};
