//! Where other threads hand in what concerns reliable topics.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use sangam_io::clock;
use sangam_io::wake::{Sleeper, Waker, pair};

use super::{Parts, ReliableEvent, Reliables, Report, Store};
use crate::broker::StartError;
use crate::command::{LaneCommand, Outlet, ShardCommand};
use crate::config::BrokerConfig;
use crate::ways::WayTeller;

/// Events that may wait for the thread.
const EVENTS: usize = 16_384;

/// The senders' end.
pub(crate) struct Desk {
    events: SyncSender<ReliableEvent>,
    waker: Waker,
    report: Arc<Report>,
}

/// The thread's end, before it runs.
pub(crate) struct Back {
    events: Receiver<ReliableEvent>,
    sleeper: Sleeper,
    report: Arc<Report>,
    store: Option<Store>,
}

/// The ways to the lane and to the shards.
type Neighbours = (
    (SyncSender<LaneCommand>, Waker),
    Vec<(SyncSender<ShardCommand>, Waker)>,
);

impl Desk {
    /// Both ends.
    ///
    /// # Errors
    /// [`StartError::Store`], [`StartError::Io`]
    pub(crate) fn open(config: &BrokerConfig) -> Result<(Self, Back), StartError> {
        let (events, inbox) = sync_channel(EVENTS);
        let (waker, sleeper) = pair()?;
        let report = Arc::new(Report::default());
        let path = config.reliable.store.as_deref();
        let store = path.map(|path| Store::open(path, waker.clone()));
        let back = Back {
            events: inbox,
            sleeper,
            report: report.clone(),
            store: store.transpose().map_err(StartError::Store)?,
        };
        let desk = Self {
            events,
            waker,
            report,
        };
        Ok((desk, back))
    }

    pub(crate) fn outlet(&self) -> Outlet<ReliableEvent> {
        Outlet::new(self.events.clone(), self.waker.clone())
    }

    pub(crate) fn teller(&self, dials: bool) -> WayTeller {
        let to = (self.events.clone(), self.waker.clone());
        WayTeller::new(clock::now(), to, dials)
    }

    pub(crate) fn report(&self) -> Arc<Report> {
        self.report.clone()
    }
}

impl Back {
    /// What the thread runs.
    pub(crate) fn keep(self, config: &BrokerConfig, (lane, shards): Neighbours) -> Reliables {
        Reliables::new(Parts {
            id: config.id,
            // Not the seed of the snapshot's hash.
            seed: config.seed().rotate_left(32) ^ u64::from(config.incarnation.0),
            limits: config.reliable.limits,
            store: self.store,
            events: self.events,
            sleeper: self.sleeper,
            lane,
            shards,
            report: self.report,
        })
    }
}
