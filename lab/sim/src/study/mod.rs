//! The study: which sessions are run, and what all of them together show.

pub mod bootstrap;
mod claims;
mod experiment;
mod family;
pub mod matched;
mod networks;
mod page;
mod prediction;
mod series;
mod tables;
mod unit;

pub use claims::{Claim, Evidence, Verdict, claims};
pub use experiment::{Experiment, Part};
pub use family::{Cell, Results, Session};
pub use networks::networks;
pub use page::{Figure, Line, Marks, Section, Table};
pub use prediction::{Predictions, prediction};
pub use series::series;
pub use tables::sections;
pub use unit::{Unit, run_on};
