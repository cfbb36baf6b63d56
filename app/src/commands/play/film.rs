//! `sangam play --film`: a stored film by RTSP, from the nodes themselves where there are several,
//! into a file or a pipe.

mod line;
mod login;
mod sink;

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::time::Duration;

use sangam_film::{
    DialogError, Options, Pace, Session, Stage, THRESHOLDS, TICK, at_front, split_login,
};
use sangam_io::clock;
use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::tcp;
use sangam_io::udp::{
    Address, Outgoing, RecvBatch, SendBatch, SendReport, UdpOptions, UdpSocket, bind_pair,
};
use sangam_model::{Random, Time};

use crate::cli::{FilmPace, PlayArgs};
use crate::commands::peer::Length;
use crate::commands::table::Live;
use crate::exit::{Exit, Failure, io};
use crate::output;
use crate::stop::Stop;
use line::Line;
use sink::Sink;

/// RTSP's, where the URL names none.
const PORT: u16 = 554;
const SECOND: Duration = Duration::from_secs(1);
/// Half a second of the fastest film.
const RECV_BUFFER: usize = 4 << 20;
const MESSAGES: usize = 32;
const DATAGRAM_MAX: usize = 65_535;
/// How long to wait for a server that does not answer.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// The same in the middle of a film.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// A film that is sent as its client asks needs a share of the buffer before it begins.
const BEGIN: f64 = 0.5;
const RTP: u64 = 0;
const RTCP: u64 = 1;
const SERVER: u64 = 2;

/// Plays until the film, the time or the user's patience ends.
pub(super) fn run(args: &PlayArgs, json: bool, stop: &Stop) -> Result<(), Failure> {
    let url = args.film.as_deref().unwrap_or_default();
    let mut sink = Sink::open(args.out.as_deref(), json)?;
    let mut player = Player::new(url, args)?;
    let length = Length::new(args.seconds);
    let mut live = Live::new();
    let mut show = clock::now() + SECOND;
    while !stop.is_set() && !length.is_over() && !player.is_done()? {
        player.turn(&mut sink)?;
        let now = clock::now();
        if now >= show {
            show = now + SECOND;
            let text = |text: &str| live.show(text);
            report(&player.session, now, (json, "second"), &sink, text);
        }
    }
    player.end();
    sink.finish()?;
    let counts = player.session.counts();
    let text = |text: &str| output::text(text);
    report(
        &player.session,
        clock::now(),
        (json, "summary"),
        &sink,
        text,
    );
    let all = counts.played.played + counts.played.lost;
    let lost = 100.0 * counts.played.lost as f64 / (all.max(1)) as f64;
    if args.max_loss.is_some_and(|most| lost > most) {
        let message = format!("{lost:.3} % of the film's packets are lost");
        return Err(Failure::new(Exit::Threshold, message));
    }
    Ok(())
}

/// Tells how it goes, where nothing else is written to standard output.
fn report<P>(
    session: &Session<P>,
    now: Time,
    (json, event): (bool, &str),
    sink: &Sink,
    text: impl FnOnce(&str),
) {
    let line = Line::of(session, now);
    if json {
        output::json_line(&line.to_json(event));
    } else if sink.is_beside() {
        text(&line.to_text());
    }
}

/// RFC 2326 section 7.1.1: it wants to know who asks.
const UNAUTHORIZED: u16 = 401;

/// The session and its sockets.
struct Player {
    session: Session<Vec<u8>>,
    stream: TcpStream,
    sockets: [UdpSocket; 2],
    poller: Poller,
    events: Events,
    room: RecvBatch,
    batch: SendBatch,
    outbox: Vec<u8>,
    next: Time,
    /// When something came last.
    heard: Time,
}

impl Player {
    fn new(url: &str, args: &PlayArgs) -> Result<Self, Failure> {
        let usage = |error: DialogError| Failure::new(Exit::Usage, error.to_string());
        let (url, login) = split_login(url).map_err(usage)?;
        let fronts = args.front.iter().map(|front| address(front));
        let fronts = fronts.collect::<Result<Vec<_>, _>>()?;
        let first = server(&url)?;
        let (stream, server) = call(first, &fronts)?;
        let url = match server == first {
            true => url,
            false => at_front(&url, server).map_err(usage)?,
        };
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let options = UdpOptions {
            recv_buffer: RECV_BUFFER,
            gro: true,
            ..UdpOptions::default()
        };
        let sockets = bind_pair(any, &options).map_err(io("ports for the film"))?;
        let ports = sockets.each_ref().map(|socket| socket.local_addr().port());
        let options = Options {
            login: login::of(args.credentials.as_deref(), login)?,
            fronts,
            ..wishes(&url, args, (ports[0], ports[1]))
        };
        let ssrc = Random::new(clock::now().as_micros()).bits() as u32;
        let session = Session::new(options, Some(server), ssrc).map_err(usage)?;
        let poller = Poller::new().map_err(io("epoll"))?;
        let watched = [
            (sockets[0].fd(), RTP),
            (sockets[1].fd(), RTCP),
            (stream.as_fd(), SERVER),
        ];
        for (fd, token) in watched {
            poller.add(fd, token, Interest::Read).map_err(io("epoll"))?;
        }
        let now = clock::now();
        Ok(Self {
            session,
            stream,
            sockets,
            poller,
            events: Events::with_capacity(8),
            room: RecvBatch::new(MESSAGES, DATAGRAM_MAX),
            batch: SendBatch::new(),
            outbox: Vec::new(),
            next: now,
            heard: now,
        })
    }

    /// Waits for something, and does it.
    fn turn(&mut self, sink: &mut Sink) -> Result<(), Failure> {
        self.speak();
        let timeout = self.next.since(clock::now());
        let waited = self.poller.wait(&mut self.events, Some(timeout));
        waited.map_err(io("epoll"))?;
        let now = clock::now();
        let tokens: Vec<u64> = self.events.iter().map(|event| event.token).collect();
        for token in tokens {
            match token {
                SERVER => self.listen(now),
                port => self.receive(port as usize, now)?,
            }
        }
        if now >= self.next {
            self.next = now + TICK;
            let mut written = Ok(());
            self.session.tick(now, |held| {
                if written.is_ok() {
                    written = sink.write(&held.payload);
                }
            });
            written?;
            self.repair();
        }
        Ok(())
    }

    fn listen(&mut self, now: Time) {
        let mut room = [0; 16 << 10];
        loop {
            match std::io::Read::read(&mut self.stream, &mut room) {
                Ok(len) => {
                    self.heard = now;
                    self.session.hear(now, &room[..len]);
                    if len > 0 {
                        continue;
                    }
                }
                Err(error) if is_early(&error) => return,
                Err(_) => self.session.hear(now, &[]),
            }
            // What is closed is readable for ever.
            let _ = self.poller.remove(self.stream.as_fd());
            return;
        }
    }

    /// Calls another node, if the film goes on there.
    fn turn_to_another(&mut self) {
        while let Some(front) = self.session.wants() {
            tracing::warn!(%front, "the film goes on by way of another node");
            // What was closed was let go of before.
            let _ = self.poller.remove(self.stream.as_fd());
            self.outbox.clear();
            let called = tcp::connect_from(None, front).and_then(|stream| {
                self.poller.add(stream.as_fd(), SERVER, Interest::Read)?;
                Ok(stream)
            });
            match called {
                Ok(stream) => self.stream = stream,
                Err(_) => self.session.hear(clock::now(), &[]),
            }
        }
    }

    fn speak(&mut self) {
        self.turn_to_another();
        self.outbox.extend(self.session.said());
        while !self.outbox.is_empty() {
            match std::io::Write::write(&mut self.stream, &self.outbox) {
                Ok(len) => drop(self.outbox.drain(..len)),
                // It is tried again with the next turn; a closed connection is read.
                Err(_) => return,
            }
        }
    }

    fn receive(&mut self, which: usize, now: Time) -> Result<(), Failure> {
        loop {
            let got = self.sockets[which].recv(&mut self.room);
            let got = got.map_err(io("receiving the film"))?;
            for datagram in self.room.datagrams() {
                self.heard = now;
                match which {
                    0 => self.session.packet(now, datagram.bytes, <[u8]>::to_vec),
                    _ => self.session.report(datagram.bytes),
                }
            }
            if got < MESSAGES {
                return Ok(());
            }
        }
    }

    /// Asks for what is lost.
    fn repair(&mut self) {
        let out = self.session.datagrams();
        let packets = out.iter().map(|(to, bytes)| Outgoing {
            to: Address::from(*to),
            from: None,
            bytes,
        });
        // What is not sent is asked for again.
        let mut report = SendReport::default();
        self.batch.send(&self.sockets[1], packets, &mut report);
    }

    /// Whether all was played.
    fn is_done(&self) -> Result<bool, Failure> {
        let silent = clock::now().since(self.heard);
        match self.session.stage() {
            Stage::Ended => Ok(true),
            Stage::Failed(why) => Err(failed(why)),
            Stage::Asking(method) if silent > ANSWER_WAIT => {
                let method: &str = method.into();
                let message = format!("the server does not answer {method}");
                Err(Failure::new(Exit::Unreachable, message))
            }
            Stage::Playing if silent > SILENCE_MAX => {
                let message = "nothing came of the film for 15 s";
                Err(Failure::new(Exit::Unreachable, message)
                    .hint("is UDP from the server's nodes let through to this host?"))
            }
            _ => Ok(false),
        }
    }

    fn end(&mut self) {
        self.session.leave();
        self.speak();
    }
}

/// Whether there is nothing to be read yet, or no connection.
fn is_early(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::NotConnected
    )
}

/// A connection to the first of these that answers.
fn call(first: SocketAddr, others: &[SocketAddr]) -> Result<(TcpStream, SocketAddr), Failure> {
    let mut failures = Vec::new();
    for server in std::iter::once(&first).chain(others) {
        let stream = TcpStream::connect_timeout(server, ANSWER_WAIT);
        match stream.and_then(|stream| stream.set_nonblocking(true).map(|()| stream)) {
            Ok(stream) => return Ok((stream, *server)),
            Err(error) => failures.push(format!("{server}: {error}")),
        }
    }
    let message = format!("no server of films answers at {}", failures.join(", "));
    Err(Failure::new(Exit::Unreachable, message))
}

fn failed(why: &sangam_film::Failure) -> Failure {
    let words = why.to_string();
    match why {
        sangam_film::Failure::Refused(_, UNAUTHORIZED, _) => {
            Failure::new(Exit::Authentication, words).hint(
                "name who plays by --credentials FILE, or in the URL: rtsp://NAME:PASSWORD@...",
            )
        }
        sangam_film::Failure::Refused(..) => {
            Failure::new(Exit::Failure, words).hint("`sangam archive list` names the films")
        }
        sangam_film::Failure::Broken(_) => {
            Failure::new(Exit::Unreachable, format!("the film breaks off: {words}"))
                .hint("--front names other nodes of the archive")
        }
    }
}

fn wishes(url: &str, args: &PlayArgs, ports: (u16, u16)) -> Options {
    let buffer = Duration::from_secs(args.buffer.into());
    Options {
        url: url.to_owned(),
        ports,
        from: Duration::from_secs(args.start),
        pace: match args.pace {
            FilmPace::Clock => Pace::Clock,
            FilmPace::Average => Pace::Average,
        },
        buffer,
        begin: BEGIN,
        thresholds: Some(THRESHOLDS),
        repair: true,
        direct: !args.relay,
        login: None,
        fronts: Vec::new(),
    }
}

/// The address that a URL means.
fn server(url: &str) -> Result<SocketAddr, Failure> {
    let dialog = sangam_film::Dialog::new(url, None);
    let dialog = dialog.map_err(|error| Failure::new(Exit::Usage, error.to_string()))?;
    let (host, port) = dialog.server();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    resolved((host, port.unwrap_or(PORT)), host)
}

/// The address of a node.
fn address(front: &str) -> Result<SocketAddr, Failure> {
    match front.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => resolved(front, front),
        _ => {
            let message = format!("--front {front}: no HOST:PORT");
            Err(Failure::new(Exit::Usage, message))
        }
    }
}

fn resolved(address: impl ToSocketAddrs, name: &str) -> Result<SocketAddr, Failure> {
    let found = address.to_socket_addrs();
    let found = found.ok().and_then(|mut all| all.next());
    found.ok_or_else(|| Failure::new(Exit::Unreachable, format!("{name}: there is no such host")))
}
