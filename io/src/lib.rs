//! The machinery of the media plane: system calls in batches, and nothing that knows about topics.
//!
//! A thread of the media plane owns a [`poll::Poller`], a [`wake::Sleeper`], a [`timer::Wheel`],
//! one [`udp::UdpSocket`] and its rings (crate `rtrb`). Packets live in a [`pool::Pool`] and travel
//! between threads as [`pool::Packet`]s, which are counted references. [`stream::Framed`] carries
//! the same units over TCP, TLS or a WebSocket, [`quic`] over QUIC; [`door::door`] connects a
//! client in the same process.
//!
//! This is the only crate with `unsafe`; every block says why it holds.

#![deny(unsafe_op_in_unsafe_fn)]

pub mod alloc;
pub mod child;
pub mod clock;
pub mod count;
pub mod door;
pub mod interfaces;
pub mod limit;
pub mod poll;
pub mod pool;
pub mod port;
pub mod quic;
pub mod stream;
mod sys;
pub mod tcp;
pub mod timer;
pub mod tls;
pub mod udp;
pub mod wake;
