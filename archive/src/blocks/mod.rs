//! Films in blocks, on as many disks as there are.
//!
//! A film is cut into blocks of one length, which its packets divide evenly; blocks are put
//! together to stripes of a [`Layout`](sangam_placement::Layout), and the pieces of a stripe,
//! copies or a parity, lie on disks that `core/placement` names. A [`Store`] reads a block from
//! where it is, or makes it from what is left.
//!
//! [`Store::settle`] brings one stripe to where it belongs, whatever the reason: a disk came, goes
//! or died, or a piece is damaged. It can be repeated and interrupted at any point, as a piece is
//! removed only after all pieces of its stripe are at their places.

mod cache;
mod disk;
mod far;
mod patience;
mod piece;
mod settle;
mod store;

pub use cache::Cache;
pub use disk::{BlockDisk, LocalDisk};
pub use piece::{BLOCK_LEN_MAX, Object, PieceId};
pub(crate) use piece::{code, layout};
pub use sangam_placement::{DiskId, Layout};
pub use settle::{Look, Seen, Settled};
pub use store::{BlockError, Store};
