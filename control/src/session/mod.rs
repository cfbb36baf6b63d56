//! The session server: XGSP sessions over HTTP, WebSockets and XML.
//!
//! [`sangam_session`] decides; this keeps, tells and lets in. The way of a change: [`http`] or
//! [`signal`] hands it to the [`Server`]'s thread, which lets the session's machine decide, writes
//! what follows to the [`ControlStore`], and only then answers, tells every member, and says to
//! the brokers which topics are open ([`gates`]). `docs/spec/xgsp.md` is the whole API.
//!
//! If this dies, brokers keep the gates they were told of and media goes on; whoever starts next
//! with the same store has the same sessions, and members come back with their resume keys.

pub mod calendar;
pub mod gates;
mod grants;
pub mod herald;
mod http;
mod hub;
mod limit;
pub mod news;
mod recorders;
mod server;
pub mod shapes;
mod signal;
pub mod spec;
pub mod store;
mod view;
mod webhook;
pub mod xml;

pub use grants::{Gatekeeper, MediaPass, Pass, TokenFault, VideoGrant};
pub use http::{Api, routes};
pub(crate) use http::{LENGTH_MS, limited};
pub use hub::{TOLD_MAX, Told};
pub use recorders::{Beat, Listed as ListedRecording};
pub use server::{Failure, Hears, Server, ServerOptions, Sessions, Statistics, Tells, unix_ms};
pub(crate) use signal::hex;
pub use store::{
    ControlStore, Embedded, Etcd, EtcdOptions, Left, Listed, Listing, Load, Move, ServerSeen,
    StoreError, Tell, Where,
};
pub use webhook::Hooks;
