//! The front's ways to the other nodes: orders, and whether they are there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use sangam_archive::films::{Films, View};
use sangam_archive::nodes::{Link, Reply, Request};
use sangam_io::wake::Waker;

use super::desk::Place;
use super::order::Order;

/// How often a node is asked how it stands.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// Orders that wait for a node; beyond, it counts as away.
const WAITING_MAX: usize = 4_096;
/// Ends of sessions that nodes are told later, as they take no more now; beyond, a node forgets a
/// session with its front.
const OWED_MAX: usize = 65_536;

/// What is heard of other nodes.
#[derive(Debug)]
pub(crate) enum News {
    /// It is there, and how it stands.
    Up(u32, Place),
    /// It is away.
    Down(u32),
    /// It does not take part in a session.
    Refused(u32, u64, String),
}

/// Threads, one for each other node.
#[derive(Debug)]
pub(crate) struct Peers {
    threads: BTreeMap<u32, Peer>,
    outbox: Sender<News>,
    /// What is heard of them.
    pub(crate) news: Receiver<News>,
    waker: Waker,
    /// Sessions whose end a node did not take: it would send them to their films' ends.
    owed: RefCell<Vec<(u32, u64)>>,
}

#[derive(Debug)]
struct Peer {
    address: String,
    orders: SyncSender<Arc<Order>>,
}

impl Peers {
    /// Knows nobody yet.
    pub(crate) fn new(waker: Waker) -> Self {
        let (outbox, news) = channel();
        Self {
            threads: BTreeMap::new(),
            outbox,
            news,
            waker,
            owed: RefCell::default(),
        }
    }

    /// Follows the nodes of the archive: new ones are asked, those that went are forgotten.
    pub(crate) fn follow(&mut self, films: &Films, view: &View) {
        let Some(own) = films.this() else {
            return;
        };
        let nodes = view.nodes();
        self.threads.retain(|id, peer| {
            let stays =
                |node: &sangam_archive::nodes::Node| node.id == *id && node.address == peer.address;
            nodes.iter().any(stays)
        });
        for node in nodes.iter().filter(|node| node.id != own.node) {
            if self.threads.contains_key(&node.id) {
                continue;
            }
            let link = own.link(node);
            match self.start(own.node, node.id, link) {
                Ok(peer) => drop(self.threads.insert(node.id, peer)),
                Err(error) => tracing::error!(%error, "no thread for another node"),
            }
        }
        for (node, session) in self.owed.take() {
            self.order(node, &Arc::new(Order::Stop { session }));
        }
    }

    fn start(&self, own: u32, node: u32, link: Arc<Link>) -> io::Result<Peer> {
        let address = link.address().to_owned();
        let (orders, inbox) = sync_channel(WAITING_MAX);
        let talk = Talk {
            own,
            node,
            link,
            inbox,
            outbox: self.outbox.clone(),
            waker: self.waker.clone(),
            is_up: None,
        };
        let thread = thread::Builder::new().name("sangam-peer".to_owned());
        thread.spawn(move || talk.run())?;
        Ok(Peer { address, orders })
    }

    /// Gives an order to a node; false if it does not take more.
    pub(crate) fn order(&self, node: u32, order: &Arc<Order>) -> bool {
        let Some(peer) = self.threads.get(&node) else {
            return false;
        };
        let is_taken = peer.orders.try_send(order.clone()).is_ok();
        let mut owed = self.owed.borrow_mut();
        match &**order {
            Order::Stop { session } if !is_taken && owed.len() < OWED_MAX => {
                owed.push((node, *session));
            }
            Order::Play(play) => owed.retain(|owed| *owed != (node, play.session)),
            _ => {}
        }
        is_taken
    }
}

/// One thread.
struct Talk {
    own: u32,
    node: u32,
    link: Arc<Link>,
    inbox: Receiver<Arc<Order>>,
    outbox: Sender<News>,
    waker: Waker,
    is_up: Option<bool>,
}

impl Talk {
    /// Until the front forgets it.
    fn run(mut self) {
        let mut asked: Option<Instant> = None;
        loop {
            let rest = asked.map_or(Duration::ZERO, |asked| {
                ASK_EVERY.saturating_sub(asked.elapsed())
            });
            match self.inbox.recv_timeout(rest) {
                Ok(order) => self.order(&order),
                Err(RecvTimeoutError::Timeout) => {
                    asked = Some(Instant::now());
                    self.ask();
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn ask(&mut self) {
        let from = self.own;
        match self.link.ask(&Request::Standing { from }, &[]) {
            Ok((Reply::Standing(standing), _)) if standing.node == self.node => {
                let place = serde_json::from_value(standing.desk);
                let place = place.unwrap_or_default();
                self.is_up = Some(true);
                self.tell(News::Up(self.node, self.whereabouts(place)));
            }
            Ok(_) => self.down(&"another node is there"),
            Err(error) => self.down(&error),
        }
    }

    fn order(&mut self, order: &Order) {
        let Ok(value) = serde_json::to_value(order) else {
            return;
        };
        let request = Request::Desk {
            from: self.own,
            order: value,
        };
        let Err(error) = self.link.ask(&request, &[]) else {
            return;
        };
        match error.kind() {
            // It is there, and says no.
            io::ErrorKind::Other => {
                if let Order::Play(play) = order {
                    let why = error.to_string();
                    self.tell(News::Refused(self.node, play.session, why));
                }
            }
            _ => self.down(&error),
        }
    }

    fn down(&mut self, why: &dyn core::fmt::Display) {
        if self.is_up != Some(false) {
            tracing::warn!(node = self.node, %why, "a node is away");
            self.is_up = Some(false);
            self.tell(News::Down(self.node));
        }
    }

    fn tell(&self, news: News) {
        if self.outbox.send(news).is_ok() {
            self.waker.wake();
        }
    }

    /// Addresses as others reach them.
    fn whereabouts(&self, mut place: Place) -> Place {
        use std::net::ToSocketAddrs;
        let all = self.link.address().to_socket_addrs();
        let hosts: Vec<IpAddr> = all.map_or_else(
            |_| Vec::new(),
            |all| all.map(|address| address.ip()).collect(),
        );
        let settle = |address: &mut SocketAddr| {
            let mut hosts = hosts.iter();
            let host = hosts.find(|host| host.is_ipv6() == address.is_ipv6());
            if let Some(host) = host.filter(|_| address.ip().is_unspecified()) {
                address.set_ip(*host);
            }
        };
        for (rtp, rtcp) in &mut place.udp {
            settle(rtp);
            settle(rtcp);
        }
        place.rtsp.iter_mut().for_each(settle);
        place
    }
}
