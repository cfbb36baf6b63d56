//! What is sent, and when: films at their pace, everything by datagrams or within connections.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use sangam_model::Time;

use crate::connection::Connection;
use crate::counts::Counts;
use crate::egress::ntp;
use crate::limits::BURST_MAX;
use crate::session::{Carrier, Reel, Sent};
use crate::turn::{Engine, Key};

impl Engine {
    /// Sends what is due of a film, and reads on.
    pub(crate) fn pace(&mut self, number: u64, now: Time) {
        let Some(session) = self.sessions.get_mut(&number) else {
            return;
        };
        let carrier = (session.carrier, session.connection);
        let is_full = carrier.0 == Carrier::Interleaved
            && self
                .connections
                .get_mut(&carrier.1)
                .is_none_or(Connection::is_full);
        if is_full {
            if !session.stalled {
                self.counts.stalled.one();
            }
            // `flush` resumes it when there is room.
            session.stalled = true;
            return;
        }
        let was_stalled = std::mem::take(&mut session.stalled);
        let reel = session.reel();
        if reel.is_some_and(|reel| reel.player.catch_up(now)) && !was_stalled {
            self.counts.late.one();
        }
        let mut out = Vec::new();
        let turn = session.turn((now, wall()), BURST_MAX, &mut out);
        self.counts.unreadable.add(turn.unreadable);
        self.counts.ended.add(u64::from(turn.ended));
        let Some(Reel { player, .. }) = session.reel() else {
            return;
        };
        if let Some(job) = player.job() {
            self.readers.read(number, job);
        }
        let next = player.next();
        let to = (session.peer, session.local);
        self.wheel.set(Key::Session(number), next);
        self.send(carrier, to, &out);
        if carrier.0 == Carrier::Interleaved {
            self.flush(carrier.1, now);
        }
        if turn.ended {
            self.end_of_stream(number, now);
        }
    }

    /// Sends packets to where a session wants them.
    pub(crate) fn send(&mut self, carrier: (Carrier, u64), to: (IpAddr, IpAddr), out: &[Sent]) {
        match carrier {
            (Carrier::Udp, _) => {
                count(out, &self.counts);
                let report = self.datagrams.send(to, out);
                self.counts.unsent_full.add(report.would_block);
                self.counts.unsent_failed.add(report.errors);
            }
            (Carrier::Interleaved, connection) => {
                if let Some(connection) = self.connections.get_mut(&connection) {
                    interleave(connection, out, &self.counts);
                }
            }
        }
    }
}

/// Puts packets behind what waits for a connection.
pub(crate) fn interleave(connection: &mut Connection, out: &[Sent], counts: &Counts) {
    count(out, counts);
    for sent in out {
        // Channels were given out as such.
        if !connection.packet(sent.to as u8, &sent.bytes) {
            counts.unsent_failed.one();
        }
    }
}

fn count(out: &[Sent], counts: &Counts) {
    let packets = out.iter().filter(|sent| !sent.is_rtcp);
    let bytes = packets.clone().map(|sent| sent.bytes.len() as u64);
    counts.packets.add(packets.count() as u64);
    counts.bytes.add(bytes.sum());
}

/// Now, for reports.
pub(crate) fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    ntp(since.unwrap_or_default())
}
