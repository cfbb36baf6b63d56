//! Films for experiments: rates of really encoded ones as numbers (`data/film-*.csv`), and
//! transport streams made of them in seconds.

mod stream;
mod trace;

pub(crate) use stream::write;
pub(crate) use trace::{FRAME, Kind, Trace};
