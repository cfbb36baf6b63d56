//! Options of `net` and `monitor`: the network as its brokers report it.

use std::net::SocketAddr;

use clap::{Args, Subcommand, ValueEnum};
use sangam_client::Address;
use sangam_control::monitor;
use sangam_model::{Filter, Topic};
use sangam_wire::PlanMethod;

use super::client::LOCAL;
use super::session::SERVER;
use super::{ConfigFile, Peer};

/// Which reports a view is made from.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Reports {
    /// Full ones of up to 32 brokers, merged ones of more
    #[default]
    Auto,
    /// A full one of each broker each second: dear in a large network
    Full,
    /// What brokers merge on the way: figures with their age, without filters and streams
    Merged,
}

impl From<Reports> for monitor::Reports {
    fn from(reports: Reports) -> Self {
        match reports {
            Reports::Auto => Self::Auto,
            Reports::Full => Self::Full,
            Reports::Merged => Self::Merged,
        }
    }
}

/// By which method a scheduler plans.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Schedule {
    /// Thompson sampling on the predicted end-to-end latency
    #[value(name = "vcroute")]
    VcRoute,
    /// Upper confidence bounds on the transmit latency
    Via,
}

impl From<Schedule> for PlanMethod {
    fn from(schedule: Schedule) -> Self {
        match schedule {
            Schedule::VcRoute => Self::VcRoute,
            Schedule::Via => Self::Via,
        }
    }
}

/// Options of `sangam net`.
#[derive(Args, Debug)]
pub(crate) struct NetArgs {
    /// Broker to ask, any one of the network; repeat it for other ways to the same, best first
    #[arg(long, value_name = "ADDRESS", default_value = LOCAL, global = true)]
    pub(crate) broker: Vec<Address>,
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// How long to wait for brokers that have not reported yet, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, global = true)]
    pub(crate) wait: u64,
    /// What to listen to; `route` needs the lists that only full reports have
    #[arg(long, value_enum, default_value_t, global = true)]
    pub(crate) reports: Reports,
    /// Print the XML document (see docs/spec/monitor.xsd)
    #[arg(long, global = true, conflicts_with = "json")]
    pub(crate) xml: bool,
    /// What to show; the map by default
    #[command(subcommand)]
    pub(crate) what: Option<NetCommand>,
}

/// What `sangam net` shows.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum NetCommand {
    /// Who is linked with whom, as a tree from one broker, and the links beside it
    Map {
        /// Name or id of the broker at the root; by default the one that is asked
        #[arg(long, value_name = "BROKER")]
        root: Option<String>,
    },
    /// Every link end with what is measured there
    Links,
    /// Every broker with its load
    Brokers,
    /// Who wants a topic, and the way events should take to them
    Route {
        /// The topic
        #[arg(value_parser = Topic::new)]
        topic: Topic,
    },
    /// The way sampled events of a topic really take, hop by hop
    Trace {
        /// Topic or filter
        #[arg(value_parser = Filter::new)]
        topic: Filter,
        /// Stop after so many traces
        #[arg(long, value_name = "N", default_value_t = 10)]
        count: u64,
        /// Stop after so many seconds
        #[arg(long, value_name = "N", default_value_t = 30)]
        seconds: u64,
    },
    /// Brokers and links, live
    Watch {
        /// Stop after so many seconds
        #[arg(long, value_name = "N")]
        seconds: Option<u64>,
    },
    /// Fix what a broker's link to another costs, until it is started anew; goes over its
    /// configuration and thresholds. The larger of both ends counts
    Weigh {
        /// Name or id of the broker at the other end
        #[arg(value_name = "BROKER")]
        peer_broker: String,
        /// From 1 to 65535, which is used only if there is no other way; or auto: as configured or
        /// measured
        #[arg(value_name = "WEIGHT|auto", value_parser = weight)]
        weight: Weight,
        #[command(flatten)]
        api: Api,
    },
    /// Let a broker have no link with another, until it is started anew; goes over its
    /// configuration. A link that is up ends
    Forbid {
        /// Name or id of the other broker
        #[arg(value_name = "BROKER")]
        peer_broker: String,
        /// Allow it, instead
        #[arg(long)]
        allow: bool,
        #[command(flatten)]
        api: Api,
    },
    /// Show which weights are fixed at a broker, which links are forbidden, and by whom
    Rules {
        #[command(flatten)]
        api: Api,
    },
    /// Exit code 10 unless all hold: 'link.loss_ppm<20000' 'network.brokers>=4'
    Check {
        /// MEASURE and a bound (< <= > >= = !=); link.* and broker.* must hold for each of them
        #[arg(required = true)]
        expressions: Vec<String>,
    },
}

/// A broker's API.
#[derive(Args, Clone, Debug)]
pub(crate) struct Api {
    /// HTTP address of the broker whose API is asked
    #[arg(long, value_name = "URL", default_value = SERVER)]
    pub(crate) server: String,
    /// Token for its API: the operator's, or one of `sangam token issue --api`; not needed on the
    /// same machine where none is configured
    #[arg(
        long,
        value_name = "TOKEN",
        env = "SANGAM_API_TOKEN",
        hide_env_values = true
    )]
    pub(crate) api_token: Option<String>,
}

/// A weight to fix, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weight(pub(crate) Option<u16>);

fn weight(text: &str) -> Result<Weight, String> {
    match text.parse::<u16>() {
        Ok(weight) if weight > 0 => Ok(Weight(Some(weight))),
        _ if text == "auto" => Ok(Weight(None)),
        _ => Err("write a number from 1 to 65535, or auto".to_owned()),
    }
}

/// Options of `sangam monitor`.
#[derive(Args, Debug)]
pub(crate) struct MonitorArgs {
    /// Brokers to listen through; each is enough, more survive the loss of one
    #[arg(long, value_name = "ADDRESS", required = true)]
    pub(crate) broker: Vec<Address>,
    #[command(flatten)]
    pub(crate) peer: Peer,
    /// HTTP address for the merged view
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4690")]
    pub(crate) http: SocketAddr,
    /// Name of this aggregation node
    #[arg(long, default_value = "monitor", value_parser = super::name)]
    pub(crate) name: String,
    /// What to listen to
    #[arg(long, value_enum, default_value_t)]
    pub(crate) reports: Reports,
    /// Pass the merged view on to aggregation nodes above
    #[arg(long)]
    pub(crate) publish: bool,
    /// Plan which ways streams take in the network, for brokers with this `routing.method`
    #[arg(long, value_enum, value_name = "METHOD")]
    pub(crate) schedule: Option<Schedule>,
    /// Secret for XPath queries, as "Authorization: Bearer TOKEN"; without it there are none
    #[arg(
        long,
        env = "SANGAM_API_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN"
    )]
    pub(crate) api_token: Option<String>,
    /// Its [[threshold]] tables are watched over the whole network; actions: alert, webhook
    #[command(flatten)]
    pub(crate) file: ConfigFile,
}
