//! What the tests have in common.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use sangam_emulator::{Control, Counters, Emulator, Site};

/// For whatever should come soon; only a broken test waits so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Two sites, joined by perfect paths.
pub(crate) fn pair() -> Emulator {
    Emulator::new(&["here", "there"], 1).unwrap_or_else(|error| panic!("{error}"))
}

/// A UDP socket inside a site, bound to one of its addresses.
pub(crate) fn udp(site: &Site, address: impl Into<IpAddr>) -> UdpSocket {
    let address = SocketAddr::new(address.into(), 0);
    let socket = site
        .enter(|| UdpSocket::bind(address))
        .expect("a socket inside");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

/// One datagram there and back.
pub(crate) fn round_trip(near: &UdpSocket, far: &UdpSocket) -> io::Result<()> {
    let mut room = [0; 64];
    near.send_to(b"ping", far.local_addr()?)?;
    let (len, from) = far.recv_from(&mut room)?;
    far.send_to(&room[..len], from)?;
    let (len, _) = near.recv_from(&mut room)?;
    assert_eq!(&room[..len], b"ping");
    Ok(())
}

/// Waits until a path's counters are as wanted.
pub(crate) fn wait_for(control: &Control, wanted: impl Fn(&Counters) -> bool) -> Counters {
    let begun = std::time::Instant::now();
    loop {
        let counters = control.counters(0, 1).expect("the emulator runs");
        if wanted(&counters) {
            return counters;
        }
        assert!(begun.elapsed() < PATIENCE, "{counters:?}");
        std::thread::yield_now();
    }
}
