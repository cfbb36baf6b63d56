//! The ports of a shard: each the same three parts, what comes in, what goes out, who is there.

mod client;
pub(crate) mod door;
pub(crate) mod leg;
pub(crate) mod native;
pub(crate) mod quic;
mod request;
pub(crate) mod tcp;
