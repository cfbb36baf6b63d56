//! What `sangam archive serve` does for the other nodes of its archive.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sangam_archive::films::Films;
use sangam_archive::nodes::NodeServer;
use sangam_rtsp::Rtsp;

use super::settle::rest;
use crate::exit::{Exit, Failure, io};
use crate::stop::Stop;

/// How soon what other nodes learned while this one was away is learned here.
const EVERY: Duration = Duration::from_secs(2);

/// The server for other nodes, and a thread that follows them.
#[derive(Debug)]
pub(super) struct Nodes {
    server: Option<NodeServer>,
    thread: Option<JoinHandle<()>>,
}

impl Nodes {
    /// Starts, if the archive's folder is a node.
    pub(super) fn start(
        rtsp: &Rtsp,
        listen: Option<SocketAddr>,
        stop: &Stop,
    ) -> Result<Self, Failure> {
        let films = rtsp.films();
        let Some(own) = films.this() else {
            if super::node::is_node(films.place()) {
                let message = "node.json or nodes.key of this archive cannot be read";
                return Err(Failure::new(Exit::Configuration, message));
            }
            return Ok(Self {
                server: None,
                thread: None,
            });
        };
        let listen = match listen {
            Some(listen) => listen,
            None => address(films, own.node)?,
        };
        let server = NodeServer::start(listen, films.clone(), own.key().clone(), rtsp.desk());
        let server = server.map_err(|error| {
            let message = format!("node at {listen}: {error}");
            Failure::new(Exit::Configuration, message)
                .hint("stop the program that holds the port, or name an address by --node-listen")
        })?;
        tracing::info!(node = own.node, address = %server.address(), "other nodes reach this one");
        let (films, stop) = (films.clone(), stop.clone());
        let thread = thread::Builder::new().name("sangam-follow".to_owned());
        let thread = thread.spawn(move || follow(&films, &stop));
        let thread = thread.map_err(io("no thread to follow other nodes"))?;
        Ok(Self {
            server: Some(server),
            thread: Some(thread),
        })
    }

    /// Waits until it has put down what it holds: it was told to stop.
    pub(super) fn end(self) {
        drop(self.server);
        if let Some(thread) = self.thread
            && thread.join().is_err()
        {
            tracing::error!("whoever follows other nodes had panicked");
        }
    }
}

/// Where a node is reached, by the roster.
fn address(films: &Films, node: u32) -> Result<SocketAddr, Failure> {
    let roster = films.roster().map_err(|error| super::failure(&error))?;
    let found = roster.nodes.iter().find(|known| known.id == node);
    let found = found.ok_or_else(|| {
        let message = format!("node {node} was removed from its archive");
        Failure::new(Exit::Configuration, message)
            .hint("with another folder it may join again: `sangam archive node add`")
    })?;
    let resolved = found.address.to_socket_addrs();
    let resolved = resolved.map_err(io(&found.address))?.next();
    resolved.ok_or_else(|| {
        let message = format!("{}: no address of this host", found.address);
        Failure::new(Exit::Configuration, message)
    })
}

fn follow(films: &Arc<Films>, stop: &Stop) {
    while rest(EVERY, stop) {
        if let Err(error) = films.catch_up() {
            tracing::warn!(%error, "this node does not hear of films and disks");
        }
    }
}
