//! What a broker says to those who come in.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use sangam_io::clock;
use sangam_io::udp::path_mtu;
use sangam_model::limits::DATAGRAM_LEN_SAFE;
use sangam_model::{BrokerId, Incarnation};
use sangam_wire::{Capabilities, DATAGRAM_MIN, Hello, Refusal, Refuse, VERSION, Welcome};

use crate::addresses::Addresses;
use crate::segment::Segment;

/// When a caller whom the broker cannot take now may try again.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Strangers shall not fill a disk with words about them.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// The last such span in which one was told of.
static TOLD: AtomicU64 = AtomicU64::new(0);

/// The parts of a welcome that are the same for everybody.
#[derive(Clone, Debug)]
pub(crate) struct Greeting {
    pub(crate) broker: BrokerId,
    pub(crate) incarnation: Incarnation,
    /// The lane's port, for what clients publish.
    pub(crate) media_port: u16,
    pub(crate) datagram_max: u16,
    pub(crate) keepalive_ms: u16,
    pub(crate) sessions: Arc<AtomicU32>,
    /// Native clients of all shards.
    pub(crate) clients: Arc<AtomicUsize>,
    pub(crate) clients_max: usize,
    /// The same by address.
    pub(crate) addresses: Arc<Addresses>,
    /// Where events go to groups.
    pub(crate) segment: Option<Arc<Segment>>,
}

/// The answer to a hello of no common version, of which the operator is told, too.
pub(crate) fn of_no_version(hello: &[u8]) -> Option<Refuse> {
    let refuse = Refuse::version(hello)?;
    // wire.md 4.3: the versions stand there in every version.
    let (least, most) = (hello[2], hello[3]);
    if is_time_to_tell() {
        tracing::warn!(
            theirs = %format_args!("{least} to {most}"),
            ours = VERSION,
            "somebody who speaks no version of ours is refused; run neighbouring releases"
        );
    }
    Some(refuse)
}

/// Once in each of the spans.
pub(crate) fn is_time_to_tell() -> bool {
    let span = clock::now().as_micros() / TELL_EVERY.as_micros() as u64 + 1;
    TOLD.swap(span, Ordering::Relaxed) != span
}

/// A broker calls whose id is another's.
pub(crate) fn tell_twin(id: BrokerId, from: SocketAddr) {
    if is_time_to_tell() {
        tracing::error!(
            %id,
            %from,
            "a broker calls whose id another broker has; it is refused. Give each broker a \
             data_dir of its own, never a copy"
        );
    }
}

/// A neighbour does not want the link.
pub(crate) fn tell_refusal(address: Option<SocketAddr>, reason: Refusal, speaks: u8) {
    let ours = VERSION;
    if !is_time_to_tell() {
        return;
    }
    match (reason, speaks) {
        (Refusal::Version, 0) => tracing::error!(
            ?address,
            ours,
            "a neighbour refuses the link: it speaks no version of ours; run neighbouring releases"
        ),
        (Refusal::Version, theirs) => tracing::error!(
            ?address,
            theirs,
            ours,
            "a neighbour refuses the link: it speaks another version; upgrade the lower one"
        ),
        (Refusal::Identity, _) => tracing::error!(
            ?address,
            "a neighbour refuses the link: another broker goes by this broker's id; give each a \
             data_dir of its own, never a copy"
        ),
        _ => tracing::warn!(?address, %reason, "a neighbour refuses the link"),
    }
}

impl Greeting {
    pub(crate) fn keepalive(&self) -> Duration {
        Duration::from_millis(self.keepalive_ms.into())
    }

    /// Whether there is room for one more client, which has it then until [`Greeting::leave`].
    pub(crate) fn enter(&self) -> bool {
        let room = |clients| (clients < self.clients_max).then_some(clients + 1);
        let entered = self
            .clients
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
        entered.is_ok()
    }

    /// A client that entered is gone.
    pub(crate) fn leave(&self) {
        self.clients.fetch_sub(1, Ordering::Relaxed);
    }

    /// What a caller is told that is not taken.
    pub(crate) fn refusal(hello: &Hello, reason: Refusal) -> Refuse {
        Refuse {
            nonce: hello.nonce,
            reason,
            retry_after_ms: RETRY_AFTER.as_millis() as u32,
            speaks: VERSION,
        }
    }

    /// Whether this client may be told of groups.
    pub(crate) fn may_hear_groups(&self, hello: &Hello, client: SocketAddr) -> bool {
        let segment = self.segment.as_ref();
        segment.is_some_and(|segment| segment.holds(hello, client))
    }

    /// Whether links with a neighbour of this address may have groups on a segment.
    pub(crate) fn shares_segment(&self, neighbour: SocketAddr) -> bool {
        let segment = self.segment.as_ref();
        segment.is_some_and(|segment| segment.config.links && segment.reaches(neighbour.ip()))
    }

    /// A number no other session of this broker has, until 2^32 have come.
    pub(crate) fn next_session(&self) -> u32 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    /// The largest datagram for this peer: the least of its wish, our limit and the path's.
    pub(crate) fn datagram_for(&self, hello: &Hello, peer: SocketAddr) -> u16 {
        let path = path_mtu(peer).unwrap_or(DATAGRAM_LEN_SAFE as u16);
        hello
            .datagram_max
            .min(self.datagram_max)
            .min(path)
            .max(DATAGRAM_MIN)
    }

    /// The welcome, but for session, datagram size and control port.
    pub(crate) fn welcome(&self, hello: &Hello) -> Welcome {
        Welcome {
            nonce: hello.nonce,
            version: VERSION,
            capabilities: Capabilities::OURS,
            session: 0,
            control_port: 0,
            media_port: self.media_port,
            datagram_max: 0,
            keepalive_ms: self.keepalive_ms,
            clock_domain: clock::clock_domain(),
            broker: self.broker,
            incarnation: self.incarnation,
        }
    }
}
