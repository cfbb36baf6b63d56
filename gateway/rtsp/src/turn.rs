//! The server's thread, turn by turn: who has something to say, what was read, what is due.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rtsp_types::StatusCode;
use sangam_archive::films::{Films, View};
use sangam_archive::nodes::Desk;
use sangam_io::clock;
use sangam_io::poll::{Event, Events, Interest, Poller};
use sangam_io::timer::Wheel;
use sangam_io::wake::Sleeper;
use sangam_model::Time;

use crate::accept::Listeners;
use crate::auth::{Credentials, Guard};
use crate::connection::{Connection, End, Said};
use crate::counts::{Counts, Levels};
use crate::datagrams::{Datagrams, is_picture_lost};
use crate::deliver::{Admission, FilmDesk, Order, Peers, Place, Sending, Totals};
use crate::ingest::{Feed, Ingest};
use crate::live::Live;
use crate::message::Answer;
use crate::player::State;
use crate::reading::Readers;
use crate::server::{Settings, Shared};
use crate::session::{Carrier, Session, Show};

/// Tokens of the poller: listeners below, datagrams, the sleeper and the broker's client here,
/// connections above.
const SLEEPER: u64 = 1_000;
const DATAGRAMS: u64 = 1_001;
const BROKER: u64 = 1_002;
const INGEST: u64 = 1_003;
const CONNECTIONS: u64 = 2_000;
pub(crate) const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    /// A session has something to send.
    Session(u64),
    /// Who waits for the announcements of a topic is answered.
    Watch(u64),
    /// Who was not heard of for long?
    Sweep,
}

/// All that the thread owns.
pub(crate) struct Engine {
    pub(crate) settings: Settings,
    pub(crate) counts: Arc<Counts>,
    levels: Arc<Levels>,
    pub(crate) guard: Option<Guard>,
    pub(crate) poller: Poller,
    sleeper: Sleeper,
    pub(crate) listeners: Listeners,
    pub(crate) datagrams: Datagrams,
    pub(crate) readers: Readers,
    /// Films by datagrams: what sends them, this node's disks, the other nodes.
    pub(crate) sending: Sending,
    pub(crate) films: Arc<Films>,
    pub(crate) view: Option<View>,
    pub(crate) peers: Peers,
    pub(crate) nodes: BTreeMap<u32, Place>,
    /// Where this node is, as others are told.
    pub(crate) place: Arc<Mutex<Place>>,
    pub(crate) admission: Admission,
    /// What is published now, if there is a broker.
    pub(crate) live: Option<Live>,
    /// What comes in, if that is wanted.
    pub(crate) ingest: Option<Ingest>,
    pub(crate) feeds: HashMap<u64, Feed>,
    /// Judges those who publish.
    pub(crate) publishers: Option<Guard>,
    pub(crate) wheel: Wheel<Key>,
    pub(crate) connections: HashMap<u64, Connection>,
    pub(crate) sessions: HashMap<u64, Session>,
    /// Of the next connection or session.
    pub(crate) next: u64,
    /// Connections whose request was answered: there may be others behind it.
    pub(crate) roused: Vec<u64>,
    events: Events,
}

impl Engine {
    /// Listens.
    pub(crate) fn new(
        settings: Settings,
        (mut live, mut ingest): (Option<Live>, Option<Ingest>),
        sleeper: Sleeper,
        (shared, films): (Shared, &Arc<Films>),
    ) -> io::Result<Self> {
        let guard = guard_of(settings.credentials.clone())?;
        let publishers = guard_of(settings.publishers.clone())?;
        let poller = Poller::new()?;
        let listeners = Listeners::open(&settings, shared.certificate, &poller)?;
        poller.add(sleeper.fd(), SLEEPER, Interest::Read)?;
        let hosts = settings.listen.iter().chain(&settings.listen_tls);
        let datagrams = Datagrams::open(hosts.map(SocketAddr::ip))?;
        for fd in datagrams.fds() {
            poller.add(fd, DATAGRAMS, Interest::Read)?;
        }
        if let Some(live) = &mut live {
            poller.add(live.client.fd(), BROKER, Interest::Read)?;
        }
        if let Some(ingest) = &mut ingest {
            poller.add(ingest.client.fd(), INGEST, Interest::Read)?;
        }
        let folder = settings.archive.clone();
        let readers = Readers::start(folder, films.clone(), &|| sleeper.waker())?;
        let sending = Sending::start(
            films.clone(),
            (datagrams.sockets(), settings.bits_max),
            sleeper.waker(),
        )?;
        let peers = Peers::new(sleeper.waker());
        let admission = Admission::new(settings.bits_max, settings.admits_all);
        let place = Place::new(&listeners.addresses()?[0], &datagrams.sockets());
        let now = clock::now();
        let mut wheel = Wheel::new(now);
        wheel.set(Key::Sweep, now + SWEEP_EVERY);
        let mut engine = Self {
            settings,
            counts: shared.counts,
            levels: shared.levels,
            guard,
            poller,
            sleeper,
            listeners,
            datagrams,
            readers,
            sending,
            films: films.clone(),
            view: films.view().ok(),
            peers,
            nodes: BTreeMap::new(),
            place: Arc::new(Mutex::new(place)),
            admission,
            live,
            ingest,
            feeds: HashMap::new(),
            publishers,
            wheel,
            connections: HashMap::new(),
            sessions: HashMap::new(),
            next: CONNECTIONS,
            roused: Vec::new(),
            events: Events::with_capacity(256),
        };
        engine.measure(now);
        engine.sweep_nodes(now);
        Ok(engine)
    }

    /// What this node does for others, and what it sent.
    pub(crate) fn desk(&self) -> (Arc<dyn Desk>, Arc<Totals>) {
        let desk = FilmDesk {
            films: self.films.clone(),
            mailbox: self.sending.mailbox.clone(),
            totals: self.sending.totals.clone(),
            place: self.place.clone(),
        };
        (Arc::new(desk), self.sending.totals.clone())
    }

    /// Where it listens, without and with TLS.
    pub(crate) fn addresses(&self) -> io::Result<[Vec<SocketAddr>; 2]> {
        self.listeners.addresses()
    }

    /// Waits for something, and does it.
    pub(crate) fn turn(&mut self) -> io::Result<()> {
        self.sleeper.arm();
        self.hear(clock::now());
        self.heed();
        // What was read before the sleep was announced woke nobody.
        self.finish_reads();
        self.heed_nodes();
        let now = clock::now();
        let has_more = self.live.as_ref().is_some_and(|live| live.has_more)
            || self.ingest.as_ref().is_some_and(|ingest| ingest.has_more);
        let timeout = match has_more {
            true => Some(Duration::ZERO),
            false => self.wheel.deadline().map(|at| at.since(now)),
        };
        let waited = self.poller.wait(&mut self.events, timeout);
        self.sleeper.disarm();
        waited?;
        // A player whose film has come to its end may say goodbye with the next event.
        self.heed_nodes();
        let now = clock::now();
        let events: Vec<_> = self.events.iter().collect();
        if events.iter().any(|event| event.token == DATAGRAMS) {
            self.reports(now);
        }
        for event in events {
            match event.token {
                SLEEPER | DATAGRAMS | BROKER | INGEST => {}
                token if token >= CONNECTIONS => self.connection(event, now),
                token => self.accept(token, now),
            }
        }
        let mut due = Vec::new();
        self.wheel.expired(now, &mut due);
        for key in due {
            match key {
                Key::Session(session) => self.pace(session, now),
                Key::Watch(_) => self.tell_askers(now),
                Key::Sweep => self.sweep(now),
            }
        }
        self.finish_reads();
        Ok(())
    }

    /// Tells what there is now.
    pub(crate) fn measure(&self, now: Time) {
        let is_up = |live: &Live| u64::from(live.client.up().is_some());
        let all = [
            (&self.levels.connections, self.connections.len() as u64),
            (&self.levels.players, self.sessions.len() as u64),
            (&self.levels.publishers, self.feeds.len() as u64),
            (&self.levels.broker, self.live.as_ref().map_or(0, is_up)),
            (&self.levels.swept, now.as_micros()),
        ];
        for (level, value) in all {
            level.store(value, Ordering::Relaxed);
        }
    }

    fn finish_reads(&mut self) {
        let now = clock::now();
        while let Some(done) = self.readers.done() {
            self.finish(done, now);
        }
        while let Some(number) = self.roused.pop() {
            self.converse(number, now);
        }
    }

    /// A number that nothing had before.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn connection(&mut self, event: Event, now: Time) {
        let number = event.token;
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if event.readable {
            let read = connection.read(now);
            self.converse(number, now);
            if let Err(end) = read {
                return self.close(number, end);
            }
        }
        if event.writable {
            self.flush(number, now);
        }
    }

    /// Sends on what waited for a connection.
    fn resume(&mut self, number: u64, now: Time) {
        let waiting = self.sessions.iter();
        let waiting = waiting.filter(|(_, one)| one.connection == number && one.stalled);
        let waiting: Vec<_> = waiting.map(|(session, _)| *session).collect();
        for session in waiting {
            self.pace(session, now);
        }
    }

    /// Answers what a client says.
    pub(crate) fn converse(&mut self, number: u64, now: Time) {
        while let Some(connection) = self.connections.get_mut(&number) {
            match connection.next() {
                None => break,
                Some(Said::Request(request)) => self.request(number, request, now),
                Some(Said::Nonsense) => self.nonsense(number),
                Some(Said::Packet(channel, body)) => self.packet(number, (channel, body), now),
            }
        }
        self.flush(number, now);
    }

    /// Takes a packet that came within a connection.
    fn packet(&mut self, number: u64, (channel, body): (u8, Range<usize>), now: Time) {
        if self.take_interleaved(number, (channel, body.clone()), now) {
            return;
        }
        let Some(connection) = self.connections.get(&number) else {
            return;
        };
        let key = connection.channels.get(&channel).copied();
        let picture_lost = is_picture_lost(connection.bytes(body));
        if let Some(session) = key.and_then(|key| self.sessions.get_mut(&key)) {
            session.heard = now;
        }
        if let Some(key) = key.filter(|_| picture_lost) {
            self.picture_lost(key, channel.into(), now);
        }
    }

    /// Sends what waits for a client.
    pub(crate) fn flush(&mut self, number: u64, now: Time) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        if let Err(end) = connection.flush(now) {
            return self.close(number, end);
        }
        let wants_room = connection.has_waiting();
        if wants_room != connection.wants_room {
            connection.wants_room = wants_room;
            let interest = match wants_room {
                true => Interest::ReadWrite,
                false => Interest::Read,
            };
            if let Err(error) = self.poller.modify(connection.fd(), number, interest) {
                tracing::warn!(%error, "a connection is not watched");
            }
        }
        // Whatever made it flush: nothing else wakes a film that waits.
        if connection.has_room_again() {
            self.resume(number, now);
        }
    }

    /// Ends a connection, and the sessions that cannot do without.
    pub(crate) fn close(&mut self, number: u64, end: End) {
        let Some(mut connection) = self.connections.remove(&number) else {
            return;
        };
        connection.end();
        // Closing the descriptor ends the watch as well.
        drop(connection);
        match end {
            End::Closed => {}
            End::Flooded => self.counts.connections_flooded.one(),
            End::Unread => self.counts.connections_unread.one(),
            End::Insecure => self.counts.connections_insecure.one(),
        }
        let ends = |session: &Session| {
            let is_playing = matches!(session.state(), State::Playing | State::Starting);
            let needs = session.carrier == Carrier::Interleaved || !is_playing;
            session.connection == number && needs
        };
        let ended = self.sessions.iter().filter(|(_, session)| ends(session));
        let ended: Vec<_> = ended.map(|(session, _)| *session).collect();
        self.counts.sessions_abandoned.add(ended.len() as u64);
        for session in ended {
            self.remove(session);
        }
        let ended = self
            .feeds
            .iter()
            .filter(|(_, feed)| feed.connection == number);
        let ended: Vec<_> = ended.map(|(feed, _)| *feed).collect();
        self.counts.sessions_abandoned.add(ended.len() as u64);
        for feed in ended {
            self.remove_feed(feed);
        }
    }

    /// Ends a session.
    pub(crate) fn remove(&mut self, session: u64) {
        self.wheel.cancel(Key::Session(session));
        let Some(gone) = self.sessions.remove(&session) else {
            return;
        };
        self.order_all(&gone, &Order::Stop { session });
        if let (Show::Live(seat), Some(live)) = (&gone.show, &mut self.live) {
            live.leave(seat.watch, session, clock::now());
        }
        if let Some(connection) = self.connections.get_mut(&gone.connection) {
            connection.channels.retain(|_, owner| *owner != session);
        }
        self.settle(gone.asker, Answer::new(StatusCode::SessionNotFound));
    }

    /// Receiver reports say that somebody is there, and what he lost; what publishers send goes on.
    fn reports(&mut self, now: Time) {
        let sources = self.take_datagrams(now);
        let mut lost = Vec::new();
        for (key, session) in &mut self.sessions {
            if session.carrier != Carrier::Udp {
                continue;
            }
            let is_sent = matches!(session.show, Show::Sent(_));
            for outlet in &session.outlets {
                let said = sources.get(&(session.peer, outlet.pair.1)).copied();
                // A client of many nodes may say all from one port.
                let by_rtp = is_sent && sources.contains_key(&(session.peer, outlet.pair.0));
                let said = said.or(by_rtp.then_some(false));
                if said.is_some() {
                    session.heard = now;
                }
                if said == Some(true) {
                    lost.push((*key, outlet.pair.1));
                }
            }
        }
        for (key, rtcp) in lost {
            self.picture_lost(key, rtcp, now);
        }
    }
}

fn guard_of(credentials: Option<Credentials>) -> io::Result<Option<Guard>> {
    let guard = credentials.map(|credentials| {
        let guard = Guard::new(credentials);
        guard.ok_or_else(|| io::Error::other("the system gives no random numbers"))
    });
    guard.transpose()
}
