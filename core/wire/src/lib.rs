//! Bytes to events and link frames, and back. `docs/spec/wire.md` specifies every byte.
//!
//! Every datagram between two Sangam endpoints is either an **event** ([`Header`], extensions,
//! payload) or a **link frame** ([`Frame`]); the low four bits of the first byte tell. On a byte
//! stream (TCP) the same units stand behind a 16-bit big-endian length.
//!
//! Nothing here allocates while an event is read or written; only control messages own memory.

#[doc(hidden)]
pub mod check;
mod codec;
mod error;
mod event;
mod extension;
pub mod feedback;
mod frame;
mod header;
mod message;
mod plan;
pub mod red;
pub mod rtcp;
pub mod rtp;
pub mod stream;

pub use error::WireError;
pub use event::Event;
pub use extension::{
    AudioLevel, ExtensionBlock, Extensions, Fragment, Hop, TRACE_HOPS_MAX, Trace, trace_hop,
};
pub use feedback::Feedback;
pub use frame::{
    CONTROL_ROOM, Capabilities, DATAGRAM_MIN, Echo, FRAME_LEN_MAX, Frame, HELLO_LEN, Heard, Hello,
    Refuse, Role, Traffic, Welcome,
};
pub use header::{Flags, HEADER_LEN, Header, VERSION, is_event};
pub use message::{
    ADDRESS_LEN_MAX, BROKERS_MAX, DIGEST_MAX, FILTERS_MAX, Group, JOIN_ROOM, Join, LinkState,
    LinkView, MESSAGE_LEN_MAX, Message, NEIGHBOURS_MAX, POSITIONS_MAX, Piece, RECORD_LEN_MAX,
    REGION_LEN_MAX, RELIABLE_LEN_MAX, Record, RecordFlags, Refusal, Register, Reliable, Route,
    Sources, Version, WAY_LEN_MAX, WAYS_MAX, messages,
};
pub use plan::{PLAN_LEN_MAX, Plan, PlanMethod, PlanTree};
