//! What the tests have in common.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sangam_client::{Client, ClientOptions, Received, Target};
use sangam_io::door::door;
use sangam_io::poll::Poller;
use sangam_io::pool::Pool;
use sangam_io::tcp;
use sangam_io::udp::{SendBatch, UdpOptions, UdpSocket};
use sangam_io::wake::{self, Waker};
use sangam_link::{Acceptor, Backoff};
use sangam_model::{Class, Filter, MediaInfo, Topic};

use crate::broker::{Broker, Command, Conduct, Seen, Sockets};

/// Longer than anything here takes on a busy machine; nothing waits for it to pass.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Every way a client reaches a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Udp,
    Udp6,
    Tcp,
    Tcp6,
    Door,
}

impl Way {
    pub(crate) const ALL: [Self; 5] = [Self::Udp, Self::Udp6, Self::Tcp, Self::Tcp6, Self::Door];

    fn ip(self) -> IpAddr {
        match self {
            Self::Udp6 | Self::Tcp6 => Ipv6Addr::LOCALHOST.into(),
            _ => Ipv4Addr::LOCALHOST.into(),
        }
    }
}

pub(crate) struct TestBroker {
    pub(crate) udp: SocketAddr,
    pub(crate) tcp: SocketAddr,
    way: Way,
    commands: Sender<Command>,
    waker: Waker,
    seen: Arc<Mutex<Seen>>,
    thread: Option<JoinHandle<()>>,
}

pub(crate) fn calm() -> Conduct {
    Conduct {
        keepalive_ms: 1_000,
        datagram_max: 1_472,
        refuse: None,
        requests_max: usize::MAX,
        incarnation: 1,
        token: None,
    }
}

impl TestBroker {
    pub(crate) fn start(way: Way, conduct: Conduct) -> Self {
        let any = SocketAddr::new(way.ip(), 0);
        Self::start_at(way, conduct, (any, any))
    }

    fn start_at(way: Way, conduct: Conduct, (udp, tcp): (SocketAddr, SocketAddr)) -> Self {
        let options = UdpOptions {
            gro: true,
            recv_buffer: 4 << 20,
            ..UdpOptions::default()
        };
        let (waker, sleeper) = wake::pair().expect("a descriptor");
        let sockets = Sockets {
            public: UdpSocket::bind(udp, &options).expect("a port"),
            shard: UdpSocket::bind(SocketAddr::new(way.ip(), 0), &options).expect("a port"),
            listener: tcp::listen(tcp).expect("a port"),
            sleeper,
        };
        let (udp, tcp) = (
            sockets.public.local_addr(),
            sockets.listener.local_addr().expect("an address"),
        );
        let (commands, receiver) = channel();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let broker = Broker {
            sockets,
            commands: receiver,
            conduct,
            seen: seen.clone(),
            acceptor: Acceptor::new([7; 16]),
            pool: Pool::new(8_192, 64),
            poller: Poller::new().expect("a descriptor"),
            peers: Vec::new(),
            streams: Vec::new(),
            sent: SendBatch::new(),
        };
        let thread = std::thread::spawn(|| broker.run().expect("the test's broker runs"));
        Self {
            udp,
            tcp,
            way,
            commands,
            waker,
            seen,
            thread: Some(thread),
        }
    }

    /// Dies without a word and comes back at the same addresses.
    pub(crate) fn restart(&mut self, conduct: Conduct) {
        self.stop();
        *self = Self::start_at(self.way, conduct, (self.udp, self.tcp));
    }

    pub(crate) fn stop(&mut self) {
        self.command(Command::Stop);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the test's broker ends");
        }
    }

    pub(crate) fn command(&self, command: Command) {
        // A broker that has stopped needs no commands.
        let _ = self.commands.send(command);
        self.waker.wake();
    }

    pub(crate) fn target(&self) -> Target {
        match self.way {
            Way::Udp | Way::Udp6 => Target::Udp(self.udp),
            Way::Tcp | Way::Tcp6 => Target::Tcp(self.tcp),
            Way::Door => {
                let (client, broker) = door(1_024, self.waker.clone()).expect("a descriptor");
                self.command(Command::Door(broker));
                Target::Door(client)
            }
        }
    }

    /// A client that is up.
    pub(crate) fn client(&self) -> Client {
        let mut client = Client::connect(self.target(), options()).expect("a socket");
        client.wait_up(PATIENCE).expect("a welcome");
        client
    }

    /// A client that has subscribed.
    pub(crate) fn subscriber(&self, filter: &str) -> Client {
        let mut client = self.client();
        client
            .subscribe(&self::filter(filter))
            .expect("room for it");
        wait(&mut client, |received| {
            matches!(received, Received::Subscribed(_))
        });
        client
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().expect("no panic").clone()
    }
}

impl Drop for TestBroker {
    fn drop(&mut self) {
        self.command(Command::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the test's broker panicked");
        }
    }
}

/// Reconnects fast.
pub(crate) fn options() -> ClientOptions {
    let first = Duration::from_millis(5);
    let most = Duration::from_millis(50);
    ClientOptions {
        backoff: Backoff {
            first,
            most,
            flap_damping: Duration::ZERO,
        },
        seed: 7,
        ..ClientOptions::default()
    }
}

pub(crate) fn topic(text: &str) -> Topic {
    Topic::new(text).expect("a topic")
}

pub(crate) fn filter(text: &str) -> Filter {
    Filter::new(text).expect("a filter")
}

pub(crate) fn media(class: Class) -> MediaInfo {
    MediaInfo {
        class,
        payload_type: 96,
        clock_rate: 90_000,
        ..MediaInfo::data()
    }
}

/// Receives until `wanted`, and returns what it was and all that came before.
#[track_caller]
pub(crate) fn wait(
    client: &mut Client,
    wanted: impl Fn(&Received) -> bool,
) -> (Received, Vec<Received>) {
    let end = Instant::now() + PATIENCE;
    let mut before = Vec::new();
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        match client.recv(left) {
            Some(received) if wanted(&received) => return (received, before),
            Some(received) => before.push(received),
            None => break,
        }
    }
    panic!("it did not come; instead: {before:?}; {client:?}");
}

/// The next event, whatever else comes before.
#[track_caller]
pub(crate) fn event(client: &mut Client) -> sangam_io::pool::Packet {
    match wait(client, |received| matches!(received, Received::Event(_))).0 {
        Received::Event(packet) => packet,
        other => panic!("{other:?}"),
    }
}

/// Looks again and again, without sleeping, until it is so.
#[track_caller]
pub(crate) fn eventually(is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "it never became so");
        std::thread::yield_now();
    }
}
