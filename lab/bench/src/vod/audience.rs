//! All viewers of a run, in one thread: one pair of ports for all of them, each with an address of
//! its own.

use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use sangam_film::{Counts, TICK};
use sangam_io::clock;
use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::udp::{
    Address, Outgoing, RecvBatch, SendBatch, SendReport, UdpOptions, UdpSocket, bind_pair,
};
use sangam_io::wake::{Sleeper, Waker, pair};
use sangam_model::Time;

use super::viewer::Viewer;
use super::{Stand, Wish};
use crate::error::Error;

/// Joined datagrams are up to 64 KiB.
const DATAGRAM_MAX: usize = 65_535;
const BATCH: usize = 32;
/// Half a second of a thousand films.
const RECV_BUFFER: usize = 64 << 20;
/// Calls to receive before viewers have their turn.
const ROUNDS: usize = 64;
/// How often what viewers see is shown to whoever measures.
const SHOW_EVERY: Duration = Duration::from_millis(100);
const RTP: u64 = 0;
const RTCP: u64 = 1;
const SLEEPER: u64 = 2;
const VIEWERS: u64 = 16;

/// What one viewer sees.
#[derive(Clone, Debug, Default)]
pub(crate) struct Look {
    /// When it came.
    pub(crate) joined: Time,
    /// Whether packets come.
    pub(crate) is_playing: bool,
    /// Whether all of the film came; what is in the buffer is still to be played.
    pub(crate) has_all: bool,
    /// Whether all of it was played.
    pub(crate) has_ended: bool,
    /// Why it does not see anything.
    pub(crate) failed: Option<String>,
    /// Where its film began, in seconds.
    pub(crate) place: f64,
    /// Seconds of film that it wanted since it came: all, or less while it asked for less.
    pub(crate) wanted_s: f64,
    /// Whether nodes send to it themselves.
    pub(crate) is_direct: bool,
    /// The longest time in which nothing of the film came, since [`Audience::mark`].
    pub(crate) gap: Duration,
    /// What it counted.
    pub(crate) counts: Counts,
}

/// What the viewers are told.
enum Message {
    Join(Box<Wish>),
    Mark,
    Leave,
}

/// The viewers; they leave with the value.
pub(crate) struct Audience {
    wishes: Sender<Message>,
    shown: Arc<Mutex<Shown>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
    /// RTP and RTCP.
    pub(crate) ports: (u16, u16),
}

#[derive(Clone, Debug, Default)]
struct Shown {
    looks: Vec<Look>,
    /// Datagrams that the socket had no room for.
    overflow: u64,
    /// When the last one was told, to see whether the thread keeps up.
    behind_us: u64,
    /// Why the thread ended.
    failed: Option<String>,
}

struct Hall {
    sockets: [UdpSocket; 2],
    poller: Poller,
    events: Events,
    room: RecvBatch,
    batch: SendBatch,
    sleeper: Sleeper,
    wishes: Receiver<Message>,
    viewers: Vec<Viewer>,
    shown: Arc<Mutex<Shown>>,
    overflow: [u32; 2],
    behind: Duration,
    stand: Arc<Stand>,
}

impl Audience {
    /// Opens the ports where viewers of a stand are, and begins.
    ///
    /// # Errors
    /// [`Error::System`] if sockets or the thread cannot be had.
    pub(crate) fn open(stand: &Arc<Stand>) -> Result<Self, Error> {
        let failed = |error| Error::System("the viewers' sockets", error);
        let options = UdpOptions {
            recv_buffer: RECV_BUFFER,
            gro: true,
            pktinfo: true,
            overflow_count: true,
            ..UdpOptions::default()
        };
        let any = IpAddr::from([0, 0, 0, 0]);
        let sockets = stand
            .among_viewers(|| bind_pair(any, &options))
            .map_err(failed)?;
        let ports = (
            sockets[0].local_addr().port(),
            sockets[1].local_addr().port(),
        );
        let (waker, sleeper) = pair().map_err(failed)?;
        let poller = Poller::new().map_err(failed)?;
        for (socket, token) in sockets.iter().zip([RTP, RTCP]) {
            poller
                .add(socket.fd(), token, Interest::Read)
                .map_err(failed)?;
        }
        poller
            .add(sleeper.fd(), SLEEPER, Interest::Read)
            .map_err(failed)?;
        let (wishes, inbox) = channel();
        let shown = Arc::<Mutex<Shown>>::default();
        let hall = Hall {
            sockets,
            poller,
            events: Events::with_capacity(256),
            room: RecvBatch::new(BATCH, DATAGRAM_MAX),
            batch: SendBatch::new(),
            sleeper,
            wishes: inbox,
            viewers: Vec::new(),
            shown: shown.clone(),
            overflow: [0; 2],
            behind: Duration::ZERO,
            stand: stand.clone(),
        };
        let thread = thread::Builder::new().name("viewers".to_owned());
        let (place, failure) = (stand.clone(), shown.clone());
        let thread = thread.spawn(move || {
            // Connections are opened by this thread: it belongs where viewers are.
            let ended = place.among_viewers(|| hall.run());
            if let Err(error) = ended {
                failure
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .failed = Some(error.to_string());
            }
        });
        Ok(Self {
            wishes,
            shown,
            waker,
            thread: Some(thread.map_err(failed)?),
            ports,
        })
    }

    /// One viewer more.
    pub(crate) fn join(&self, wish: Wish) {
        // Its thread lives as long as this value.
        let _ = self.wishes.send(Message::Join(Box::new(wish)));
        self.waker.wake();
    }

    /// From now on it is looked how long nothing comes.
    pub(crate) fn mark(&self) {
        let _ = self.wishes.send(Message::Mark);
        self.waker.wake();
    }

    /// What all see, in the order in which they came.
    ///
    /// # Errors
    /// [`Error::Join`] if there are no viewers any more.
    pub(crate) fn looks(&self) -> Result<Vec<Look>, Error> {
        let shown = self.shown();
        match shown.failed {
            Some(why) => Err(Error::Join(format!("the viewers left: {why}"))),
            None => Ok(shown.looks),
        }
    }

    /// Datagrams that the viewers' socket had no room for, and how far their thread was behind at
    /// worst.
    pub(crate) fn troubles(&self) -> (u64, Duration) {
        let shown = self.shown();
        (shown.overflow, Duration::from_micros(shown.behind_us))
    }

    fn shown(&self) -> Shown {
        let shown = self.shown.lock();
        shown.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Audience {
    fn drop(&mut self) {
        let _ = self.wishes.send(Message::Leave);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic was told already.
            let _ = thread.join();
        }
    }
}

impl Hall {
    fn run(mut self) -> io::Result<()> {
        let mut next = clock::now();
        let mut show = next;
        loop {
            self.sleeper.arm();
            if !self.admit()? {
                return self.empty();
            }
            let timeout = next.since(clock::now());
            let waited = self.poller.wait(&mut self.events, Some(timeout));
            self.sleeper.disarm();
            waited?;
            let now = clock::now();
            let tokens: Vec<u64> = self.events.iter().map(|event| event.token).collect();
            for token in tokens {
                match token {
                    RTP | RTCP => self.receive(token as usize, now)?,
                    SLEEPER => {}
                    viewer => self.hear((viewer - VIEWERS) as usize, now),
                }
            }
            if now >= next {
                self.behind = self.behind.max(now.since(next));
                self.tick(now)?;
                next = now + TICK;
            }
            if now >= show {
                self.show(now);
                show = now + SHOW_EVERY;
            }
        }
    }

    /// Lets in who waits; whether it goes on.
    fn admit(&mut self) -> io::Result<bool> {
        while let Ok(wish) = self.wishes.try_recv() {
            let wish = match wish {
                Message::Join(wish) => *wish,
                Message::Mark => {
                    self.viewers.iter_mut().for_each(Viewer::mark);
                    continue;
                }
                Message::Leave => return Ok(false),
            };
            let number = self.viewers.len();
            let address = self.stand.viewer(number);
            let viewer = Viewer::new(wish, address, clock::now());
            let viewer = viewer.map_err(|error| io::Error::other(error.to_string()))?;
            let token = VIEWERS + number as u64;
            self.poller
                .add(viewer.stream().as_fd(), token, Interest::Read)?;
            self.viewers.push(viewer);
        }
        Ok(true)
    }

    fn hear(&mut self, number: usize, now: Time) {
        let Some(viewer) = self.viewers.get_mut(number) else {
            return;
        };
        viewer.converse(now);
        if viewer.is_gone() {
            // What is closed is readable for ever.
            let _ = self.poller.remove(viewer.stream().as_fd());
        }
    }

    fn receive(&mut self, which: usize, now: Time) -> io::Result<()> {
        for _ in 0..ROUNDS {
            let got = self.sockets[which].recv(&mut self.room)?;
            for datagram in self.room.datagrams() {
                if let Some(lost) = datagram.overflow {
                    self.overflow[which] = lost;
                }
                let Some(IpAddr::V4(local)) = datagram.local else {
                    continue;
                };
                let Some(viewer) = self.viewers.get_mut(self.stand.number(local)) else {
                    continue;
                };
                match which {
                    0 => viewer.take(now, datagram.bytes),
                    _ => viewer.session.report(datagram.bytes),
                }
            }
            if got < BATCH {
                break;
            }
        }
        Ok(())
    }

    fn tick(&mut self, now: Time) -> io::Result<()> {
        let mut report = SendReport::default();
        for (number, viewer) in self.viewers.iter_mut().enumerate() {
            viewer.tick(now);
            viewer.follow(now, (&self.poller, VIEWERS + number as u64))?;
            viewer.speak();
            let out = viewer.session.datagrams();
            let from = Some(IpAddr::V4(viewer.address));
            let packets = out.iter().map(|(to, bytes)| Outgoing {
                to: Address::from(*to),
                from,
                bytes,
            });
            self.batch.send(&self.sockets[1], packets, &mut report);
        }
        Ok(())
    }

    fn show(&self, now: Time) {
        let looks = self.viewers.iter().map(|viewer| viewer.look(now));
        let shown = Shown {
            looks: looks.collect(),
            overflow: self.overflow.iter().map(|count| u64::from(*count)).sum(),
            behind_us: self.behind.as_micros() as u64,
            failed: None,
        };
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    }

    /// Everybody leaves.
    fn empty(&mut self) -> io::Result<()> {
        for viewer in &mut self.viewers {
            viewer.session.leave();
            viewer.speak();
        }
        Ok(())
    }
}
