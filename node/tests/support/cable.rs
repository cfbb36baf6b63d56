//! A cable between a broker and whoever dials it: it can be cut, it can lose, and it measures.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sangam_wire::is_event;

/// How long a thread waits before it looks whether the test is over.
const LOOK: Duration = Duration::from_millis(20);

/// Datagrams from one caller to one broker and back, each way by a thread.
pub(crate) struct Cable {
    /// What the caller dials.
    pub(crate) near: SocketAddr,
    /// Where the broker sees the caller.
    pub(crate) far: SocketAddr,
    state: Arc<State>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    cut: AtomicBool,
    over: AtomicBool,
    /// The longest datagram that crossed.
    longest: AtomicUsize,
    /// Events towards the caller still to be lost.
    losses: AtomicU64,
    /// Microseconds for which nothing crosses, and then everything, in turn; 0 if all the time.
    stall_us: AtomicU64,
}

impl Cable {
    /// Lays a cable to a broker's public port.
    pub(crate) fn to(broker: SocketAddr) -> Self {
        Self::between(broker, None)
    }

    /// The same, and the broker may say the first word to a caller that is known before.
    pub(crate) fn between(broker: SocketAddr, caller: Option<SocketAddr>) -> Self {
        let near = UdpSocket::bind((broker.ip(), 0)).expect("a socket");
        let far = UdpSocket::bind((broker.ip(), 0)).expect("a socket");
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(LOOK)).expect("a timeout");
        }
        let addresses = [&near, &far].map(|socket| socket.local_addr().expect("an address"));
        let state = Arc::new(State::default());
        let caller = Arc::new(std::sync::Mutex::new(caller));
        let (up, down) = (state.clone(), state.clone());
        let (in_near, in_far) = (clone_of(&near), clone_of(&far));
        let (learn, learnt) = (caller.clone(), caller);
        let threads = vec![
            thread::spawn(move || {
                up.carry(&in_near, false, |bytes, from| {
                    if let Ok(mut caller) = learn.lock() {
                        *caller = Some(from);
                    }
                    far.send_to(bytes, broker)
                });
            }),
            thread::spawn(move || {
                down.carry(&in_far, true, |bytes, _| {
                    let caller = learnt.lock().ok().and_then(|caller| *caller);
                    caller.map_or(Ok(0), |caller| near.send_to(bytes, caller))
                });
            }),
        ];
        Self {
            near: addresses[0],
            far: addresses[1],
            state,
            threads,
        }
    }

    /// From now on nothing crosses.
    pub(crate) fn cut(&self) {
        self.state.cut.store(true, Relaxed);
    }

    /// Everything crosses again.
    pub(crate) fn mend(&self) {
        self.state.cut.store(false, Relaxed);
    }

    /// From now on everything waits for so long, then crosses at once and for as long, and so on: a
    /// path that shakes, whatever its load.
    pub(crate) fn stall(&self, time: Duration) {
        self.state.stall_us.store(time.as_micros() as u64, Relaxed);
    }

    /// The next `count` events towards the caller are lost.
    pub(crate) fn lose(&self, count: u64) {
        self.state.losses.store(count, Relaxed);
    }

    /// Bytes of the longest datagram so far.
    pub(crate) fn longest(&self) -> usize {
        self.state.longest.load(Relaxed)
    }
}

impl State {
    fn carry(
        &self,
        from: &UdpSocket,
        down: bool,
        send: impl Fn(&[u8], SocketAddr) -> std::io::Result<usize>,
    ) {
        let mut bytes = vec![0; 65_535];
        let start = Instant::now();
        while !self.over.load(Relaxed) {
            let Ok((len, source)) = from.recv_from(&mut bytes) else {
                continue;
            };
            if self.cut.load(Relaxed) {
                continue;
            }
            if bytes[..len].first().copied().and_then(is_event) == Some(true) {
                let lost = |left: u64| left.checked_sub(1);
                if down && self.losses.fetch_update(Relaxed, Relaxed, lost).is_ok() {
                    continue;
                }
            }
            self.longest.fetch_max(len, Relaxed);
            let stall_us = self.stall_us.load(Relaxed);
            let phase_us = start.elapsed().as_micros() as u64 % (2 * stall_us).max(1);
            if phase_us < stall_us {
                thread::park_timeout(Duration::from_micros(stall_us - phase_us));
            }
            // Nobody may be there: then it is lost, as on any cable.
            let _ = send(&bytes[..len], source);
        }
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.state.over.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            thread.join().expect("a cable's thread");
        }
    }
}

fn clone_of(socket: &UdpSocket) -> UdpSocket {
    socket.try_clone().expect("a descriptor")
}
