//! The laboratory's program: `sangam sim`, and storms of brokers for whoever works on the core.

mod program;

use std::process::ExitCode;

fn main() -> ExitCode {
    program::run()
}
