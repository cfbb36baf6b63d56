//! Who may come in: hellos at the public port.

use std::net::SocketAddr;

use sangam_broker::DropReason;
use sangam_link::Verdict;
use sangam_wire::{Frame, Hello, Refusal, Role};

use super::Lane;
use crate::port::native::{Admission, GROUPS_SHARD};
use crate::welcome::Greeting;

impl Lane {
    pub(super) fn hello(&mut self, hello: Hello, from: SocketAddr) {
        let frame = match self.acceptor.judge(&hello, from, self.now) {
            Verdict::Retry(frame) => {
                if hello.cookie.is_some() {
                    self.counters.dropped(DropReason::CookieInvalid);
                }
                frame
            }
            Verdict::Refuse(frame) => frame,
            Verdict::Accept { .. } => {
                return match hello.role {
                    Role::Client => self.admit_client(hello, from),
                    Role::Broker(peer, incarnation) => {
                        self.admit_broker(&hello, (peer, incarnation), from);
                    }
                };
            }
        };
        self.answer_stranger(&frame, from);
    }

    /// Answers somebody whose address is not confirmed, unless there are too many.
    pub(super) fn answer_stranger(&mut self, frame: &Frame<'_>, from: SocketAddr) {
        if self.strangers.admits(self.now, from) {
            self.answer(frame, from);
        } else {
            self.counters.dropped(DropReason::FloodHello);
        }
    }

    pub(super) fn refuse(&mut self, hello: &Hello, reason: Refusal, from: SocketAddr) {
        self.answer(&Frame::Refuse(Greeting::refusal(hello, reason)), from);
    }

    /// Hands a client over to its shard, which takes it if there is room.
    fn admit_client(&mut self, hello: Hello, from: SocketAddr) {
        // The same address always meets the same shard, so that a repeated hello is recognised.
        let shard = match self.links.greeting.may_hear_groups(&hello, from) {
            true => GROUPS_SHARD,
            false => shard_of(from, self.shards.len()),
        };
        let socket = self
            .sockets
            .iter()
            .position(|s| s.local_addr().is_ipv6() == from.is_ipv6());
        let admissions = socket.and_then(|socket| self.shards[shard].admissions.get(socket));
        let admission = Admission {
            hello: hello.clone(),
            source: from,
        };
        match admissions.map(|to| to.try_send(admission)) {
            Some(Ok(())) => self.shards[shard].waker.wake(),
            _ => {
                self.counters.dropped(DropReason::FloodHello);
                self.refuse(&hello, Refusal::Full, from);
            }
        }
    }
}

fn shard_of(address: SocketAddr, shards: usize) -> usize {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(address);
    (hash % shards as u64) as usize
}
