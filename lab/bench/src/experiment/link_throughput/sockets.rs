//! TCP between two sites without a broker, as iperf measures it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use sangam_emulator::{Emulator, Site};
use sangam_io::poll::{Events, Interest, Poller};

use super::Flow;
use crate::error::Error;

const TURN: Duration = Duration::from_millis(50);
const CHUNK: usize = 64 << 10;

/// Opens the connections of each pair, and has them carry what they can.
///
/// # Errors
/// Sockets that cannot be opened.
pub(super) fn open(
    network: &Emulator,
    (pairs, connections): (usize, usize),
) -> Result<Flow, Error> {
    let mut flow = Flow::default();
    for pair in network.sites().chunks_exact(2).take(pairs) {
        let opened = tcp(&pair[0], &pair[1], connections);
        let (near, far) =
            opened.map_err(|error| Error::System("connections between sites", error))?;
        let (stop, received) = (Arc::clone(&flow.stop), Arc::clone(&flow.received));
        flow.ends
            .push(thread::spawn(move || read(far, (&stop, &received))));
        let stop = Arc::clone(&flow.stop);
        flow.ends.push(thread::spawn(move || write(near, &stop)));
    }
    Ok(flow)
}

/// Connections from one site to another: the near and the far ends.
fn tcp(near: &Site, far: &Site, count: usize) -> io::Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let listener = far.enter(|| TcpListener::bind((far.v4(), 0)))?;
    let target = listener.local_addr()?;
    let near = near.enter(|| (0..count).map(|_| TcpStream::connect(target)).collect())?;
    let far = (0..count).map(|_| listener.accept().map(|(stream, _)| stream));
    let (near, far): (Vec<_>, Vec<_>) = (near, far.collect::<io::Result<_>>()?);
    for stream in near.iter().chain(&far) {
        stream.set_nonblocking(true)?;
    }
    Ok((near, far))
}

fn write(mut streams: Vec<TcpStream>, stop: &AtomicBool) -> io::Result<()> {
    let chunk = vec![0; CHUNK];
    each_ready(&mut streams, Interest::ReadWrite, stop, |stream| {
        stream.write(&chunk).map(|_| ())
    })
}

fn read(
    mut streams: Vec<TcpStream>,
    (stop, received): (&AtomicBool, &AtomicU64),
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    each_ready(&mut streams, Interest::Read, stop, |stream| {
        let len = stream.read(&mut chunk)?;
        received.fetch_add(len as u64, Ordering::Relaxed);
        Ok(())
    })
}

/// Does something with each stream that is ready for it, until it is time to stop.
fn each_ready(
    streams: &mut [TcpStream],
    interest: Interest,
    stop: &AtomicBool,
    mut what: impl FnMut(&mut TcpStream) -> io::Result<()>,
) -> io::Result<()> {
    let poller = Poller::new()?;
    for (number, stream) in streams.iter().enumerate() {
        poller.add(stream.as_fd(), number as u64, interest)?;
    }
    let mut events = Events::with_capacity(streams.len());
    while !stop.load(Ordering::Relaxed) {
        poller.wait(&mut events, Some(TURN))?;
        for event in events.iter() {
            match what(&mut streams[event.token as usize]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The other end may have stopped first.
                Err(_) if stop.load(Ordering::Relaxed) => return Ok(()),
                done => done?,
            }
        }
    }
    Ok(())
}
