//! What other nodes ask of this one.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use sangam_archive::films::Films;
use sangam_archive::nodes::Desk;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::order::Order;
use super::work::{Command, STREAMS_MAX, Sockets};
use super::{Mailbox, Totals};

/// Where a node is for players, and how it fares.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Ports of RTP and RTCP for each family; an unspecified address is that of the node.
    pub(crate) udp: Vec<(SocketAddr, SocketAddr)>,
    /// Where it serves RTSP.
    pub(crate) rtsp: Vec<SocketAddr>,
    /// Bits in a second that it is to send on average.
    pub(crate) booked: u64,
    /// How many it sends at most.
    pub(crate) limit: Option<u64>,
    /// It has no more to give, whatever was booked.
    pub(crate) is_full: bool,
}

impl Place {
    /// This node, which listens there and sends by these sockets.
    pub(crate) fn new(rtsp: &[SocketAddr], sockets: &[Sockets]) -> Self {
        let udp = sockets.iter();
        let udp = udp.map(|pair| (pair.rtp.local_addr(), pair.rtcp.local_addr()));
        Self {
            udp: udp.collect(),
            rtsp: rtsp.to_vec(),
            ..Self::default()
        }
    }
}

/// The desk of a node that sends films.
#[derive(Debug)]
pub(crate) struct FilmDesk {
    pub(crate) films: Arc<Films>,
    pub(crate) mailbox: Mailbox,
    pub(crate) totals: Arc<Totals>,
    pub(crate) place: Arc<Mutex<Place>>,
}

impl Desk for FilmDesk {
    fn standing(&self, from: u32) -> Value {
        if from != 0 {
            self.mailbox.tell(Command::Heard(from));
        }
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_value(&*place).unwrap_or_default()
    }

    fn order(&self, from: u32, order: Value) -> Result<Value, String> {
        let order: Order = serde_json::from_value(order).map_err(|error| error.to_string())?;
        if let Order::Play(play) = &order {
            let view = self.films.view().map_err(|error| error.to_string())?;
            if view.changes() != play.changes {
                return Err("this node knows other disks".to_owned());
            }
            self.films
                .film(play.film)
                .map_err(|error| error.to_string())?;
            if self.totals.streams.load(Ordering::Relaxed) >= STREAMS_MAX as u64 {
                return Err("this node sends too many films".to_owned());
            }
        }
        self.mailbox
            .tell(Command::Order(from, None, Box::new(order)));
        Ok(Value::Null)
    }
}
