//! `sangam archive recorder`: records sessions when somebody wants it, and replays them.
//!
//! One thread speaks with each session server (`desk`); each recording (`take`) and each replay
//! (`player`) has a thread of its own, so that none waits for another.

mod beside;
mod catalogue;
mod desk;
mod drawing;
mod orders;
mod past;
mod player;
mod scribe;
mod take;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use sangam_client::Address;

use super::capture::random;
use crate::cli::{Peer, Place, RecorderArgs};
use crate::commands::session::Server;
use crate::exit::{Failure, io};
use crate::stop::Stop;
pub(crate) use beside::{Beside, near};
use catalogue::Catalogue;
use desk::Desk;
pub(crate) use orders::{Order, Orders};

/// Tenant and name of a session.
type Id = (String, String);

/// Where a recorder records from, and into what.
pub(crate) struct Options {
    /// Its name among recorders.
    pub(crate) name: String,
    /// Session servers, `http://HOST:PORT`.
    pub(crate) servers: Vec<String>,
    /// What it shows them.
    pub(crate) api_token: Option<String>,
    /// Ways to one broker, best first.
    pub(crate) brokers: Vec<Address>,
    /// How it reaches that.
    pub(crate) peer: Peer,
    /// The archive's folder.
    pub(crate) archive: PathBuf,
    /// Whether it carries out orders to record topics: of the recorders of an archive one does.
    pub(crate) takes_orders: bool,
}

/// A recorder at work; it ends once it is told to.
#[derive(Debug)]
pub(crate) struct Service {
    threads: Vec<JoinHandle<()>>,
    orders: Option<Arc<Orders>>,
}

/// Serves until the user's patience ends.
pub(super) fn run(place: &Place, args: &RecorderArgs) -> Result<(), Failure> {
    let stop = Stop::on_signals().map_err(io("cannot wait for signals"))?;
    let options = Options {
        name: args.name.clone().unwrap_or_else(name),
        servers: args.server.clone(),
        api_token: args.api_token.clone(),
        brokers: args.from.clone(),
        peer: args.peer.clone(),
        archive: place.folder.clone(),
        takes_orders: false,
    };
    Service::start(options, &stop)?.join();
    Ok(())
}

/// A name that no other recorder has.
pub(crate) fn name() -> String {
    format!("archive-{:016x}", random())
}

impl Service {
    /// Works in threads of its own until `stop` is set.
    ///
    /// # Errors
    /// A server's address is none, or the system gives no thread.
    pub(crate) fn start(options: Options, stop: &Stop) -> Result<Self, Failure> {
        let options = Arc::new(options);
        let catalogue = Arc::new(Catalogue::new(&options.archive));
        let servers: Result<Vec<_>, _> = options
            .servers
            .iter()
            .map(|url| Server::new(url, options.api_token.as_deref()))
            .collect();
        let mut threads = Vec::new();
        let mut begin = |name: &str, work: Box<dyn FnOnce() + Send>| -> Result<(), Failure> {
            let thread = thread::Builder::new().name(name.to_owned());
            threads.push(thread.spawn(work).map_err(io("no thread to record"))?);
            Ok(())
        };
        for server in servers? {
            let desk = Desk::new(&options, server, (&catalogue, stop))?;
            let stop = stop.clone();
            begin("sangam-desk", Box::new(move || desk.run(&stop)))?;
        }
        let takes_orders = options.takes_orders;
        let orders = takes_orders.then(|| Arc::new(Orders::of(&options.archive)));
        if let Some(orders) = orders.clone() {
            let (shelf, until) = (catalogue.clone(), stop.clone());
            let work = move || orders.run(&options, &shelf, &until);
            begin("sangam-orders", Box::new(work))?;
        }
        let stop = stop.clone();
        begin("sangam-shelf", Box::new(move || catalogue.run(&stop)))?;
        Ok(Self { threads, orders })
    }

    /// Recordings of topics, if it takes orders for them.
    pub(crate) fn orders(&self) -> Option<Arc<Orders>> {
        self.orders.clone()
    }

    /// Waits until everything is put down.
    pub(crate) fn join(self) {
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the recorder had panicked");
            }
        }
    }
}
