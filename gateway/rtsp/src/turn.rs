//! The server's thread, turn by turn: who has something to say, what was read, what is due.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rtsp_types::StatusCode;
use sangam_io::clock;
use sangam_io::poll::{Event, Events, Interest, Poller};
use sangam_io::tcp;
use sangam_io::timer::Wheel;
use sangam_io::wake::Sleeper;
use sangam_model::Time;

use crate::auth::Guard;
use crate::connection::{Connection, End, Said};
use crate::counts::Counts;
use crate::datagrams::Datagrams;
use crate::egress::ntp;
use crate::limits::BURST_MAX;
use crate::message::Answer;
use crate::player::State;
use crate::reading::Readers;
use crate::server::Settings;
use crate::session::{Carrier, Sent, Session};

/// Tokens of the poller: listeners below, datagrams and the sleeper here, connections above.
const SLEEPER: u64 = 1_000;
const DATAGRAMS: u64 = 1_001;
const CONNECTIONS: u64 = 2_000;
const SWEEP_EVERY: Duration = Duration::from_secs(1);
const ACCEPTS_MAX: usize = 64;

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// A session has something to send.
    Session(u64),
    /// Who was not heard of for long?
    Sweep,
}

/// All that the thread owns.
pub(crate) struct Engine {
    pub(crate) settings: Settings,
    pub(crate) counts: Arc<Counts>,
    pub(crate) guard: Option<Guard>,
    poller: Poller,
    sleeper: Sleeper,
    listeners: Vec<TcpListener>,
    /// Whether the poller looks at them.
    listens: bool,
    pub(crate) datagrams: Datagrams,
    pub(crate) readers: Readers,
    wheel: Wheel<Key>,
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
        sleeper: Sleeper,
        counts: Arc<Counts>,
    ) -> io::Result<Self> {
        let guard = settings.credentials.clone().map(|credentials| {
            let guard = Guard::new(credentials);
            guard.ok_or_else(|| io::Error::other("the system gives no random numbers"))
        });
        let guard = guard.transpose()?;
        let poller = Poller::new()?;
        let mut listeners = Vec::new();
        for (token, address) in (0..).zip(&settings.listen) {
            if address.port() != 0 {
                tcp::is_free(*address)?;
            }
            let listener = tcp::listen(*address)?;
            poller.add(listener.as_fd(), token, Interest::Read)?;
            listeners.push(listener);
        }
        poller.add(sleeper.fd(), SLEEPER, Interest::Read)?;
        let hosts = settings.listen.iter().map(SocketAddr::ip);
        let datagrams = Datagrams::open(hosts)?;
        for fd in datagrams.fds() {
            poller.add(fd, DATAGRAMS, Interest::Read)?;
        }
        let readers = Readers::start(settings.archive.clone(), &|| sleeper.waker())?;
        let now = clock::now();
        let mut wheel = Wheel::new(now);
        wheel.set(Key::Sweep, now + SWEEP_EVERY);
        Ok(Self {
            settings,
            counts,
            guard,
            poller,
            sleeper,
            listeners,
            listens: true,
            datagrams,
            readers,
            wheel,
            connections: HashMap::new(),
            sessions: HashMap::new(),
            next: CONNECTIONS,
            roused: Vec::new(),
            events: Events::with_capacity(256),
        })
    }

    /// Where it listens.
    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// Waits for something, and does it.
    pub(crate) fn turn(&mut self) -> io::Result<()> {
        self.sleeper.arm();
        // What was read before the sleep was announced woke nobody.
        self.finish_reads();
        let now = clock::now();
        let timeout = self.wheel.deadline().map(|at| at.since(now));
        let waited = self.poller.wait(&mut self.events, timeout);
        self.sleeper.disarm();
        waited?;
        let now = clock::now();
        let events: Vec<_> = self.events.iter().collect();
        if events.iter().any(|event| event.token == DATAGRAMS) {
            self.reports(now);
        }
        for event in events {
            match event.token {
                SLEEPER | DATAGRAMS => {}
                token if token >= CONNECTIONS => self.connection(event, now),
                token => self.accept(token, now),
            }
        }
        let mut due = Vec::new();
        self.wheel.expired(now, &mut due);
        for key in due {
            match key {
                Key::Session(session) => self.pace(session, now),
                Key::Sweep => self.sweep(now),
            }
        }
        self.finish_reads();
        Ok(())
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

    fn accept(&mut self, token: u64, now: Time) {
        for _ in 0..ACCEPTS_MAX {
            let listener = usize::try_from(token).ok();
            let Some(listener) = listener.and_then(|token| self.listeners.get(token)) else {
                return;
            };
            match tcp::accept(listener) {
                Ok(Some((stream, peer))) => {
                    let ip = peer.ip();
                    let all = self.connections.values();
                    let own = all.filter(|known| known.peer.ip() == ip).count();
                    let is_full = self.connections.len() >= self.settings.connections_max;
                    if is_full || own >= self.settings.per_address {
                        self.counts.connections_refused.one();
                        continue;
                    }
                    let Ok(connection) = Connection::new(stream, peer, now) else {
                        continue;
                    };
                    let number = self.number();
                    let fd = connection.fd();
                    if self.poller.add(fd, number, Interest::Read).is_err() {
                        self.counts.connections_refused.one();
                        continue;
                    }
                    self.counts.connections.one();
                    self.connections.insert(number, connection);
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "no RTSP connection is accepted for a second");
                    self.counts.connections_refused.one();
                    return self.listen(false);
                }
            }
        }
    }

    /// Looks at the listeners, or leaves them alone until the next sweep: what cannot be accepted
    /// waits in the kernel, and would keep the thread awake.
    fn listen(&mut self, wanted: bool) {
        if wanted == self.listens {
            return;
        }
        self.listens = wanted;
        for (token, listener) in (0..).zip(&self.listeners) {
            let done = match wanted {
                true => self.poller.add(listener.as_fd(), token, Interest::Read),
                false => self.poller.remove(listener.as_fd()),
            };
            if let Err(error) = done {
                tracing::error!(%error, "an RTSP listener is lost");
            }
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
                Some(Said::Packet(channel)) => {
                    let session = connection.channels.get(&channel);
                    let session = session.and_then(|session| self.sessions.get_mut(session));
                    if let Some(session) = session {
                        session.heard = now;
                    }
                }
            }
        }
        self.flush(number, now);
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
    fn close(&mut self, number: u64, end: End) {
        let Some(connection) = self.connections.remove(&number) else {
            return;
        };
        // Closing the descriptor ends the watch as well.
        drop(connection);
        match end {
            End::Closed => {}
            End::Flooded => self.counts.connections_flooded.one(),
            End::Unread => self.counts.connections_unread.one(),
        }
        let ends = |session: &Session| {
            let is_playing = matches!(session.player.state, State::Playing | State::Starting);
            let needs = session.carrier == Carrier::Interleaved || !is_playing;
            session.connection == number && needs
        };
        let ended = self.sessions.iter().filter(|(_, session)| ends(session));
        let ended: Vec<_> = ended.map(|(session, _)| *session).collect();
        self.counts.sessions_abandoned.add(ended.len() as u64);
        for session in ended {
            self.remove(session);
        }
    }

    /// Ends a session.
    pub(crate) fn remove(&mut self, session: u64) {
        self.wheel.cancel(Key::Session(session));
        let Some(gone) = self.sessions.remove(&session) else {
            return;
        };
        if let Some(connection) = self.connections.get_mut(&gone.connection) {
            connection.channels.retain(|_, owner| *owner != session);
        }
        self.settle(gone.asker, Answer::new(StatusCode::SessionNotFound));
    }

    /// Receiver reports say that somebody is there.
    fn reports(&mut self, now: Time) {
        let heard = self.datagrams.heard().into_iter();
        let heard = heard.map(|source| (source.ip().to_canonical(), source.port()));
        // One pass over the sessions, however much of it is junk.
        let heard: HashSet<_> = heard.collect();
        let sessions = self.sessions.values_mut().filter(|session| {
            let mut outlets = session.outlets.iter();
            session.carrier == Carrier::Udp
                && outlets.any(|outlet| heard.contains(&(session.peer, outlet.pair.1)))
        });
        sessions.for_each(|session| session.heard = now);
    }

    /// Sends what is due of a session, and reads on.
    pub(crate) fn pace(&mut self, number: u64, now: Time) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let carrier = (session.carrier, session.connection);
        let is_full = carrier.0 == Carrier::Interleaved
            && self
                .connections
                .get_mut(&carrier.1)
                .is_none_or(Connection::is_full);
        if is_full {
            if !session.stalled {
                self.counts.stalled.one();
            }
            // `flush` resumes it when there is room.
            session.stalled = true;
            return;
        }
        let was_stalled = std::mem::take(&mut session.stalled);
        if session.player.catch_up(now) && !was_stalled {
            self.counts.late.one();
        }
        let mut out = Vec::new();
        let turn = session.turn((now, wall()), BURST_MAX, &mut out);
        self.counts.unreadable.add(turn.unreadable);
        self.counts.ended.add(u64::from(turn.ended));
        if let Some(job) = session.player.job() {
            self.readers.read(number, job);
        }
        let next = session.player.next();
        let to = (session.peer, session.local);
        self.wheel.set(Key::Session(number), next);
        self.send(carrier, to, &out);
        if carrier.0 == Carrier::Interleaved {
            self.flush(carrier.1, now);
        }
    }

    fn send(&mut self, carrier: (Carrier, u64), to: (IpAddr, IpAddr), out: &[Sent]) {
        let packets = out.iter().filter(|sent| !sent.is_rtcp);
        let bytes = packets.clone().map(|sent| sent.bytes.len() as u64);
        self.counts.packets.add(packets.count() as u64);
        self.counts.bytes.add(bytes.sum());
        match carrier {
            (Carrier::Udp, _) => {
                let report = self.datagrams.send(to, out);
                self.counts.unsent_full.add(report.would_block);
                self.counts.unsent_failed.add(report.errors);
            }
            (Carrier::Interleaved, connection) => {
                let Some(connection) = self.connections.get_mut(&connection) else {
                    return;
                };
                for sent in out {
                    // Channels were given out as such.
                    if !connection.packet(sent.to as u8, &sent.bytes) {
                        self.counts.unsent_failed.one();
                    }
                }
            }
        }
    }

    /// Ends whom nobody hears of.
    fn sweep(&mut self, now: Time) {
        self.wheel.set(Key::Sweep, now + SWEEP_EVERY);
        self.listen(true);
        let Settings {
            timeout, patience, ..
        } = self.settings;
        let is_silent = |heard: Time| now.since(heard) >= timeout;
        let stuck = self.connections.iter().filter(|(_, connection)| {
            let since = connection.waits_since;
            since.is_some_and(|since| now.since(since) >= patience)
        });
        let stuck: Vec<_> = stuck.map(|(number, _)| *number).collect();
        for number in stuck {
            self.close(number, End::Unread);
        }
        // Who takes what is sent within a connection is there.
        let gone = self.sessions.iter().filter(|(_, session)| {
            let reads =
                session.carrier == Carrier::Interleaved && session.player.state == State::Playing;
            !reads && is_silent(session.heard)
        });
        let gone: Vec<_> = gone.map(|(number, _)| *number).collect();
        self.counts.sessions_expired.add(gone.len() as u64);
        for number in gone {
            self.remove(number);
        }
        let idle = self.connections.iter().filter(|(number, connection)| {
            let mut sessions = self.sessions.values();
            let has_session = sessions.any(|session| session.connection == **number);
            !has_session && is_silent(connection.heard)
        });
        let idle: Vec<_> = idle.map(|(number, _)| *number).collect();
        self.counts.connections_idle.add(idle.len() as u64);
        for number in idle {
            self.close(number, End::Closed);
        }
    }
}

/// Now, for reports.
fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    ntp(since.unwrap_or_default())
}
