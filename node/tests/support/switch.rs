//! A switch between brokers: each is known to the others by an address there, and any of them can
//! be cut off from the rest.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a thread waits before it looks whether the test is over.
const LOOK: Duration = Duration::from_millis(20);

/// Datagrams between brokers, each port by a thread.
pub(crate) struct Switch {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
}

struct Inner {
    ports: Vec<Port>,
    over: AtomicBool,
}

struct Port {
    socket: UdpSocket,
    /// The broker behind it.
    broker: Mutex<Option<SocketAddr>>,
    /// On the far side of the cut.
    far: AtomicBool,
}

impl Switch {
    pub(crate) fn new(ports: usize) -> Self {
        let port = |_| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
            socket.set_read_timeout(Some(LOOK)).expect("a timeout");
            Port {
                socket,
                broker: Mutex::new(None),
                far: AtomicBool::new(false),
            }
        };
        let inner = Arc::new(Inner {
            ports: (0..ports).map(port).collect(),
            over: AtomicBool::new(false),
        });
        let carry = |at: usize| {
            let inner = inner.clone();
            thread::spawn(move || inner.carry(at))
        };
        let threads = (0..ports).map(carry).collect();
        Self { inner, threads }
    }

    /// By which address others reach the broker at this port.
    pub(crate) fn address(&self, port: usize) -> SocketAddr {
        let socket = &self.inner.ports[port].socket;
        socket.local_addr().expect("an address")
    }

    pub(crate) fn plug(&self, port: usize, broker: SocketAddr) {
        let mut at = self.inner.ports[port].broker.lock().expect("no panic");
        *at = Some(broker);
    }

    /// Between these and the others nothing crosses any more.
    pub(crate) fn cut_off(&self, ports: &[usize]) {
        for (number, port) in self.inner.ports.iter().enumerate() {
            port.far.store(ports.contains(&number), Relaxed);
        }
    }

    /// Everything crosses again.
    pub(crate) fn mend(&self) {
        self.cut_off(&[]);
    }
}

impl Inner {
    fn carry(&self, at: usize) {
        let own = &self.ports[at];
        let mut bytes = vec![0; 65_535];
        while !self.over.load(Relaxed) {
            let Ok((len, from)) = own.socket.recv_from(&mut bytes) else {
                continue;
            };
            let from = self.ports.iter().find(|port| port.broker() == Some(from));
            let (Some(from), Some(to)) = (from, own.broker()) else {
                continue;
            };
            if from.far.load(Relaxed) == own.far.load(Relaxed) {
                // Nobody may be there: then it is lost, as on any network.
                let _ = from.socket.send_to(&bytes[..len], to);
            }
        }
    }
}

impl Port {
    fn broker(&self) -> Option<SocketAddr> {
        *self.broker.lock().expect("no panic")
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.inner.over.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a port's thread");
        }
    }
}
