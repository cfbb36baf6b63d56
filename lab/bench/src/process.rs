//! Broker processes: started, watched, measured and ended.

mod broker;
mod config;
mod cpu;
mod http;
mod kernel;
mod metrics;
mod reap;
mod recorder;
mod scheduler;

pub(crate) use broker::{Broker, SIMULATOR, free_port, sangam_binary};
pub(crate) use config::{Carrier, Queuing, Setup, client_port};
pub(crate) use cpu::{CpuTimes, own_cpu, this_thread_cpu, thread_cpu};
pub(crate) use http::parse as parse_answer;
pub(crate) use kernel::UdpCounters;
pub(crate) use metrics::Metrics;
pub(crate) use reap::exec;
pub(crate) use recorder::{Recorded, Recorder};
pub(crate) use scheduler::Scheduler;
