//! Films on demand: servers under a quota and a cap, and viewers that consume them as a film's
//! trace says (Zimmermann et al., section 3.1).

mod archive;
mod audience;
pub(crate) mod cluster;
mod quota;
mod ramp;
mod server;
mod shelf;
mod stand;
mod viewer;

pub(crate) use archive::{Archive, Moved};
pub(crate) use audience::{Audience, Look};
pub(crate) use quota::Quota;
pub(crate) use ramp::{BUFFER, Ramp, SETTLE, Step};
pub(crate) use server::{Load, Server};
pub(crate) use shelf::Shelf;
pub(crate) use stand::Stand;
pub(crate) use viewer::Wish;
