//! Something in the middle of a TCP connection: there or not, and it may stop to carry.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Carries every connection to its port on to another address until it is dropped.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    paused: AtomicBool,
    cut: AtomicBool,
    over: AtomicBool,
    calls: AtomicU64,
    /// Bytes each second and direction; 0: as many as come.
    rate: AtomicU64,
}

impl Relay {
    pub(crate) fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let relay = Self {
            address: listener.local_addr().expect("an address"),
            state: Arc::default(),
        };
        let state = relay.state.clone();
        thread::spawn(move || {
            while let Ok((near, _)) = listener.accept() {
                if state.over.load(Ordering::Relaxed) {
                    return;
                }
                state.calls.fetch_add(1, Ordering::Relaxed);
                if state.cut.load(Ordering::Relaxed) {
                    continue;
                }
                let Ok(far) = TcpStream::connect(target) else {
                    continue;
                };
                for socket in [&near, &far] {
                    socket.set_nodelay(true).expect("an open socket");
                }
                let clone = |socket: &TcpStream| socket.try_clone().expect("a descriptor");
                pump(clone(&near), clone(&far), state.clone());
                pump(far, near, state.clone());
            }
        });
        relay
    }

    /// Connections so far.
    pub(crate) fn calls(&self) -> u64 {
        self.state.calls.load(Ordering::Relaxed)
    }

    /// Carries nothing, until told otherwise.
    pub(crate) fn pause(&self, paused: bool) {
        self.state.paused.store(paused, Ordering::Relaxed);
    }

    /// Carries so many bytes a second in each direction, until told otherwise.
    pub(crate) fn slow_down(&self, rate: Option<u64>) {
        self.state.rate.store(rate.unwrap_or(0), Ordering::Relaxed);
    }

    /// Ends every connection, and each that comes, until told otherwise.
    pub(crate) fn cut(&self, cut: bool) {
        self.state.cut.store(cut, Ordering::Relaxed);
    }
}

impl State {
    /// Spends the time that so many bytes take.
    fn wait_for(&self, count: usize) {
        if let Some(micros) =
            (count as u64 * 1_000_000).checked_div(self.rate.load(Ordering::Relaxed))
        {
            thread::park_timeout(Duration::from_micros(micros));
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for the next connection.
        let _ = TcpStream::connect(self.address);
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, state: Arc<State>) {
    let look = Duration::from_millis(2);
    thread::spawn(move || {
        from.set_read_timeout(Some(Duration::from_millis(100)))
            .expect("an open socket");
        let mut bytes = [0; 16_384];
        while !state.over.load(Ordering::Relaxed) && !state.cut.load(Ordering::Relaxed) {
            if state.paused.load(Ordering::Relaxed) {
                thread::park_timeout(look);
                continue;
            }
            match from.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) if to.write_all(&bytes[..count]).is_err() => break,
                Ok(count) => state.wait_for(count),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    });
}
