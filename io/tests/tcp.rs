//! Units over a byte stream: whole or not at all, and never without bound.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::pool::Pool;
use sangam_io::stream::{Framed, FramedError, OutLimits, Progress};
use sangam_io::tcp::{accept, connect, listen};
use sangam_model::limits::EVENT_LEN_MAX;

const LIMITS: OutLimits = OutLimits {
    units: 1_000,
    bytes: 1 << 20,
};
const DEADLINE: Option<Duration> = Some(Duration::from_secs(20));

fn ready(socket: &impl AsFd, interest: Interest) {
    let poller = Poller::new().unwrap();
    let mut events = Events::with_capacity(1);
    poller.add(socket.as_fd(), 0, interest).unwrap();
    assert_eq!(poller.wait(&mut events, DEADLINE).unwrap(), 1);
}

/// A blocking stream to write bytes by hand, and the framed other end.
fn pair(family: &str, limits: OutLimits) -> (TcpStream, Framed) {
    let listener = listen(family.parse().unwrap()).unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    ready(&listener, Interest::Read);
    let (far, peer) = accept(&listener).unwrap().unwrap();
    assert_eq!(peer, near.local_addr().unwrap());
    (near, Framed::new(far, limits))
}

fn unit(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

/// Reads once something is there; what came and how it went.
fn read(framed: &mut Framed) -> (Vec<Vec<u8>>, Result<Progress, FramedError>) {
    ready(framed.socket(), Interest::Read);
    let mut units = Vec::new();
    let result = framed.read_units(|unit| units.push(unit.to_vec()));
    (units, result)
}

fn read_count(framed: &mut Framed, count: usize) -> Vec<Vec<u8>> {
    let mut units = Vec::new();
    while units.len() < count {
        let (more, result) = read(framed);
        result.unwrap();
        units.extend(more);
    }
    units
}

#[test]
fn a_unit_arrives_whole_however_it_is_cut() {
    for family in ["127.0.0.1:0", "[::1]:0"] {
        let (mut near, mut framed) = pair(family, LIMITS);
        near.set_nodelay(true).unwrap();
        let bytes = [unit(b"first"), unit(b"2"), unit(b"third")].concat();
        let mut units = Vec::new();
        for byte in bytes {
            near.write_all(&[byte]).unwrap();
            units.extend(read(&mut framed).0);
        }
        assert_eq!(units, [&b"first"[..], b"2", b"third"]);
    }
}

#[test]
fn a_unit_of_no_bytes_ends_the_stream() {
    let (mut near, mut framed) = pair("127.0.0.1:0", LIMITS);
    near.write_all(&[unit(b"first"), unit(b"")].concat())
        .unwrap();
    let (units, result) = read(&mut framed);
    assert_eq!(units, [b"first"]);
    assert!(matches!(result, Err(FramedError::Empty)), "{result:?}");
}

#[test]
fn many_units_in_one_write_arrive_in_order() {
    let (mut near, mut framed) = pair("127.0.0.1:0", LIMITS);
    let sent: Vec<Vec<u8>> = (1..=300).map(|n| vec![n as u8; n * 7]).collect();
    let bytes: Vec<u8> = sent.iter().flat_map(|bytes| unit(bytes)).collect();
    let writer = std::thread::spawn(move || near.write_all(&bytes).map(|()| near));
    assert_eq!(read_count(&mut framed, 300), sent);
    drop(writer.join().unwrap());
}

#[test]
fn the_longest_unit_passes_and_a_longer_one_ends_the_stream() {
    let (mut near, mut framed) = pair("127.0.0.1:0", LIMITS);
    near.write_all(&unit(&vec![5; EVENT_LEN_MAX])).unwrap();
    assert_eq!(read_count(&mut framed, 1)[0].len(), EVENT_LEN_MAX);
    near.write_all(&(EVENT_LEN_MAX as u16 + 1).to_be_bytes())
        .unwrap();
    let (units, result) = read(&mut framed);
    assert!(units.is_empty());
    assert!(matches!(result, Err(FramedError::Oversized(len)) if len == EVENT_LEN_MAX + 1));
}

#[test]
fn the_end_of_a_stream_is_told_after_its_units() {
    let (mut near, mut framed) = pair("[::1]:0", LIMITS);
    near.write_all(&[unit(b"last"), vec![0]].concat()).unwrap();
    drop(near);
    assert_eq!(read_count(&mut framed, 1), [b"last"]);
    assert!(matches!(read(&mut framed).1, Ok(Progress::Closed)));
}

#[test]
fn what_is_queued_arrives_as_units() {
    let (near, mut framed) = pair("127.0.0.1:0", LIMITS);
    near.set_nonblocking(true).unwrap();
    let mut near = Framed::new(near, LIMITS);
    let pool = Pool::new(128, 0);
    for n in 0..100_u8 {
        near.push(pool.copy(&[n; 900]).unwrap().freeze()).unwrap();
        near.push_bytes(&[n]).unwrap();
    }
    assert_eq!(
        near.queued(),
        OutLimits {
            units: 200,
            bytes: 100 * 905
        }
    );
    let mut units = Vec::new();
    while !near.write().unwrap() {
        units.extend(read(&mut framed).0);
    }
    units.extend(read_count(&mut framed, 200 - units.len()));
    let expected: Vec<_> = (0..100_u8).flat_map(|n| [vec![n; 900], vec![n]]).collect();
    assert_eq!(units, expected);
    assert_eq!(near.queued(), OutLimits { units: 0, bytes: 0 });
    assert_eq!(pool.free().0, 128);
}

#[test]
fn a_peer_that_does_not_read_fills_its_queue_and_no_more() {
    let limits = OutLimits {
        units: 50,
        bytes: 1 << 20,
    };
    let (mut near, mut framed) = pair("127.0.0.1:0", limits);
    let bytes = vec![1; EVENT_LEN_MAX];
    let mut pushed = 0;
    // The kernel's buffers take some; then the queue fills.
    while framed.push_bytes(&bytes).is_ok() {
        pushed += 1;
        framed.write().unwrap();
    }
    assert!(matches!(framed.push_bytes(&bytes), Err(FramedError::Full)));
    assert_eq!(framed.queued().units, 50);
    // Once the peer reads, everything that was taken arrives.
    let reader = std::thread::spawn(move || {
        let mut all = vec![0; pushed * (EVENT_LEN_MAX + 2)];
        near.read_exact(&mut all).map(|()| all)
    });
    while !framed.write().unwrap() {
        ready(framed.socket(), Interest::ReadWrite);
    }
    let all = reader.join().unwrap().unwrap();
    assert_eq!(all, unit(&bytes).repeat(pushed));
}

#[test]
fn bytes_bound_the_queue_as_well() {
    let (_near, mut framed) = pair(
        "127.0.0.1:0",
        OutLimits {
            units: 50,
            bytes: 100,
        },
    );
    framed.push_bytes(&[0; 60]).unwrap();
    assert!(matches!(
        framed.push_bytes(&[0; 60]),
        Err(FramedError::Full)
    ));
    framed.push_bytes(&[0; 36]).unwrap();
    assert_eq!(
        framed.queued(),
        OutLimits {
            units: 2,
            bytes: 100
        }
    );
    let long = vec![0; EVENT_LEN_MAX + 1];
    assert!(matches!(
        framed.push_bytes(&long),
        Err(FramedError::Oversized(_))
    ));
}

#[test]
fn a_connection_is_made_without_waiting() {
    let listener = listen("[::1]:0".parse().unwrap()).unwrap();
    assert!(accept(&listener).unwrap().is_none());
    let stream = connect(listener.local_addr().unwrap()).unwrap();
    ready(&stream, Interest::ReadWrite);
    assert!(stream.take_error().unwrap().is_none());
    ready(&listener, Interest::Read);
    assert!(accept(&listener).unwrap().is_some());
}

#[test]
fn a_refused_connection_is_told() {
    let address: SocketAddr = {
        let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        listener.local_addr().unwrap()
    };
    let error = connect(address).and_then(|stream| {
        ready(&stream, Interest::ReadWrite);
        Ok(stream
            .take_error()?
            .map_or(ErrorKind::Other, |error| error.kind()))
    });
    assert_eq!(
        error.unwrap_or_else(|error| error.kind()),
        ErrorKind::ConnectionRefused
    );
}

#[test]
fn several_threads_listen_on_one_port() {
    let first = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    assert!(listen(first.local_addr().unwrap()).is_ok());
}
