//! Members of a session, thousands of them: a WebSocket each (docs/spec/xgsp.md), all in one
//! thread.
//!
//! What they are told is not read but for its number: what matters here is who has heard how much,
//! and when, which [`Ledger`] keeps.

mod door;
mod frame;
mod ledger;
mod line;

pub(crate) use door::{Door, Role};
pub(crate) use ledger::{Ledger, Spread};
pub(crate) use line::Member;
