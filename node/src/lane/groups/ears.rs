//! Groups that neighbours send to: the receiving end.
//!
//! This end says that it hears a group with the first beacon that arrives there, and that it does
//! not once none came for [`QUIET`] although the neighbour lives.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use sangam_broker::LinkId;
use sangam_io::poll::{Interest, Poller};
use sangam_io::udp::{RecvBatch, UdpSocket, is_near};
use sangam_model::limits::{GROUPS_PER_CLIENT, LINKS_PER_BROKER};
use sangam_model::{StreamId, Time};
use sangam_wire::{Group, Message};

use super::penalty::Penalty;
use super::sets::{BEACON, SETS_MAX};

/// Groups of all neighbours together; those beyond send copies.
const JOINED_MAX: usize = 128;
/// Silence after which a group counts as dead. A neighbour that sends nothing at all is suspect
/// 150 ms after its last heartbeat, which may have left a beacon's time after its last beacon:
/// first it shows whether that is so. What is lost meanwhile comes again.
const QUIET: Duration = BEACON.saturating_mul(5);
/// A neighbour that is heard again has so long for its next beacon.
const RETURN: Duration = BEACON.saturating_mul(2);

/// What this broker was told to join.
pub(super) struct Ears {
    /// The port of all groups, and the interface.
    port: u16,
    interface: u32,
    recv_buffer: usize,
    poller: Poller,
    sockets: Vec<Ear>,
    joined: Vec<Joined>,
    penalties: [Penalty; LINKS_PER_BROKER],
    /// Links of which a group is heard, as a bit set.
    heard: u64,
    messages: VecDeque<(LinkId, Message)>,
}

/// Linux lets one socket join 20 groups, so there are several.
struct Ear {
    socket: UdpSocket,
    v6: bool,
    joined: usize,
}

struct Joined {
    link: LinkId,
    name: StreamId,
    group: Group,
    ear: usize,
    /// Silent from here on, unless a beacon comes.
    judged: Time,
    /// The link itself was, when it was judged last.
    doubt: bool,
    hears: bool,
}

impl Ears {
    pub(super) fn new(port: u16, interface: u32, recv_buffer: usize) -> io::Result<Self> {
        Ok(Self {
            port,
            interface,
            recv_buffer,
            poller: Poller::new()?,
            sockets: Vec::new(),
            joined: Vec::new(),
            penalties: [Penalty::default(); LINKS_PER_BROKER],
            heard: 0,
            messages: VecDeque::new(),
        })
    }

    /// Readable when something has come.
    pub(super) fn poller(&self) -> &Poller {
        &self.poller
    }

    /// The next thing to tell a neighbour.
    pub(super) fn message(&mut self) -> Option<(LinkId, Message)> {
        self.messages.pop_front()
    }

    /// Joins a group of the neighbour at `from`, which nobody else may name.
    ///
    /// # Errors
    /// This host cannot, or shall not; the neighbour goes on sending copies.
    pub(super) fn join(
        &mut self,
        (link, from): (LinkId, SocketAddr),
        (name, group): (StreamId, Group),
    ) -> io::Result<()> {
        self.leave(link, name);
        let (ip, v6) = (group.address.ip(), group.address.is_ipv6());
        let fault = if group.source != from.ip() {
            Some("a group is for what comes from the neighbour's own address")
        } else if group.address.port() != self.port {
            Some("the neighbour's groups have another port; set multicast.port alike")
        } else if !is_near(ip) {
            Some("a group that leaves the organisation")
        } else if self.joined.len() >= JOINED_MAX || self.of(link).count() >= SETS_MAX {
            Some("more groups than a broker joins")
        } else {
            None
        };
        if let Some(fault) = fault {
            return Err(io::Error::other(fault));
        }
        // Two neighbours may share a host, and then name the same.
        let ear = match self.joined_by(ip, group.source) {
            Some(ear) => ear,
            None => {
                let ear = self.ear(v6)?;
                let to = &self.sockets[ear];
                to.socket.join(ip, group.source, self.interface)?;
                ear
            }
        };
        self.sockets[ear].joined += 1;
        self.joined.push(Joined {
            link,
            name,
            group,
            ear,
            judged: Time::ZERO,
            doubt: false,
            hears: false,
        });
        Ok(())
    }

    /// Leaves a group, if it is joined.
    pub(super) fn leave(&mut self, link: LinkId, name: StreamId) {
        let is = |one: &Joined| one.link == link && one.name == name;
        if let Some(at) = self.joined.iter().position(is) {
            self.leave_at(at);
        }
    }

    /// A link is down, or goes by another way now.
    pub(super) fn gone(&mut self, link: LinkId) {
        while let Some(at) = self.joined.iter().position(|one| one.link == link) {
            self.leave_at(at);
        }
        self.messages.retain(|(other, _)| *other != link);
        self.penalties[usize::from(link.0)] = Penalty::default();
    }

    /// Whether events that come from a neighbour by groups are taken.
    pub(super) fn hears(&self, link: LinkId) -> bool {
        self.heard & (1 << link.0) != 0
    }

    /// A beacon of a group; whether it is one that was joined.
    pub(super) fn beacon(&mut self, link: LinkId, name: StreamId, now: Time) -> bool {
        let is = |one: &&mut Joined| one.link == link && one.name == name;
        let Some(one) = self.joined.iter_mut().find(is) else {
            return false;
        };
        one.judged = now + QUIET;
        if !one.hears && self.penalties[usize::from(link.0)].is_over(now) {
            one.hears = true;
            self.say(link, name, true);
        }
        true
    }

    /// Reads one batch of a socket; `None` if there is no such socket.
    pub(super) fn read(&self, at: usize, batch: &mut RecvBatch) -> Option<io::Result<usize>> {
        Some(self.sockets.get(at)?.socket.recv(batch))
    }

    /// When a group counts as silent, or at once if there is something to tell.
    pub(super) fn deadline(&self) -> Option<Time> {
        if !self.messages.is_empty() {
            return Some(Time::ZERO);
        }
        let heard = self.joined.iter().filter(|one| one.hears);
        heard.map(|one| one.judged).min()
    }

    /// Tells of the groups that have fallen silent: those of neighbours who `live`. Read before.
    pub(super) fn expire(&mut self, now: Time, live: impl Fn(LinkId) -> bool) {
        for at in 0..self.joined.len() {
            let one = &mut self.joined[at];
            if !one.hears || one.judged > now {
                continue;
            }
            // While the link itself is in doubt, silence says nothing of its groups.
            let doubt = !live(one.link);
            if std::mem::replace(&mut one.doubt, doubt) || doubt {
                one.judged = now + RETURN;
                continue;
            }
            one.hears = false;
            let (link, name) = (one.link, one.name);
            self.penalties[usize::from(link.0)].add(now);
            self.say(link, name, false);
        }
    }

    fn say(&mut self, link: LinkId, stream: StreamId, hears: bool) {
        tracing::debug!(link = link.0, %stream, hears, "a group of a neighbour");
        self.messages
            .push_back((link, Message::Hearing { stream, hears }));
        self.sum_up();
    }

    fn sum_up(&mut self) {
        let heard = self.joined.iter().filter(|one| one.hears);
        self.heard = heard.fold(0, |bits, one| bits | 1 << one.link.0);
    }

    fn leave_at(&mut self, at: usize) {
        let Joined { group, ear, .. } = self.joined.swap_remove(at);
        let (ip, source) = (group.address.ip(), group.source);
        self.sockets[ear].joined -= 1;
        if self.joined_by(ip, source).is_none()
            && let Err(error) = self.sockets[ear].socket.leave(ip, source, self.interface)
        {
            tracing::debug!(group = %ip, %error, "leaving a group failed");
        }
        self.sum_up();
    }

    fn of(&self, link: LinkId) -> impl Iterator<Item = &Joined> {
        self.joined.iter().filter(move |one| one.link == link)
    }

    /// The socket that has joined what this source sends to a group.
    fn joined_by(&self, ip: IpAddr, source: IpAddr) -> Option<usize> {
        let is = |one: &&Joined| one.group.address.ip() == ip && one.group.source == source;
        self.joined.iter().find(is).map(|one| one.ear)
    }

    /// A socket that may join one more.
    fn ear(&mut self, v6: bool) -> io::Result<usize> {
        let has_room = |ear: &Ear| ear.v6 == v6 && ear.joined < GROUPS_PER_CLIENT;
        if let Some(at) = self.sockets.iter().position(has_room) {
            return Ok(at);
        }
        let socket = UdpSocket::for_groups(self.port, v6, self.recv_buffer)?;
        let at = self.sockets.len();
        self.poller.add(socket.fd(), at as u64, Interest::Read)?;
        let joined = 0;
        self.sockets.push(Ear { socket, v6, joined });
        Ok(at)
    }
}
