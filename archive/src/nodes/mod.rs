//! Nodes: processes with disks of their own that keep the films of one archive together.
//!
//! Every node has the small things whole, the [`Roster`](crate::films::Roster) of nodes and disks
//! and the index of each film, and of the blocks those that belong on its disks. A node's disks are
//! disks of the others' stores as well, by [`RemoteDisk`]: whoever reads or puts a block need not
//! know where it lies.
//!
//! # Between nodes
//! One question and one answer at a time over TCP, [`Request`] and [`Reply`]; a key that all nodes
//! have keeps others out. What lies in `docs/spec/nodes.md` is all of it. Nothing is encrypted:
//! nodes are in a network that can be trusted.

mod handshake;
mod link;
mod message;
mod own;
mod remote;
mod serve;

pub use handshake::Key;
pub use link::Link;
pub use message::{Node, Reply, Request, Standing};
pub use own::{IDENTITY, KEY, Own};
pub use remote::RemoteDisk;
pub use serve::{Desk, NodeServer, Seen};
