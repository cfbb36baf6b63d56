//! Packets of publishers in, what the broker says of them out.

use std::collections::HashMap;
use std::net::IpAddr;

use rtsp_types::StatusCode;
use sangam_client::Received;
use sangam_model::Time;
use sangam_wire::{Feedback, Refusal};

use super::feed::State;
use crate::datagrams::{is_picture_lost, lost};
use crate::limits::{EVENTS_MAX, REPORT_EVERY};
use crate::message::Answer;
use crate::session::Sent;
use crate::turn::Engine;

impl Engine {
    /// Takes what the broker says to publishers.
    pub(crate) fn heed(&mut self) {
        let Some(ingest) = &mut self.ingest else {
            return;
        };
        let mut wanted = Vec::new();
        ingest.has_more = true;
        for _ in 0..EVENTS_MAX {
            let Some(received) = ingest.client.try_recv() else {
                ingest.has_more = false;
                break;
            };
            match received {
                Received::Feedback {
                    stream,
                    feedback: Feedback::KeyFrame,
                    ..
                } => wanted.push(stream),
                Received::Up(_) => self.counts.ingest_links.one(),
                Received::Down(reason) => {
                    tracing::warn!(%reason, "the link to the broker is down for publishers");
                }
                Received::Token(Err(reason)) => {
                    tracing::warn!(%reason, "the broker refuses the publishers' token");
                }
                _ => {}
            }
        }
        for stream in wanted {
            let feeds = self.feeds.iter();
            let mut asked = feeds.filter_map(|(key, feed)| Some((*key, feed.ask(stream)?)));
            if let Some((key, compound)) = asked.next() {
                self.counts.ingest_key_frames.one();
                self.tell_publisher(key, compound);
            }
        }
        self.answer_publishers();
    }

    /// Answers those who wait for the broker's leave, as far as it is there.
    fn answer_publishers(&mut self) {
        let mut done = Vec::new();
        for (key, feed) in &mut self.feeds {
            if !matches!(feed.state, State::Opening(_)) {
                continue;
            }
            let status = match feed.is_taken() {
                Ok(false) => continue,
                Ok(true) => {
                    feed.state = State::Recording;
                    StatusCode::Ok
                }
                Err(reason) => {
                    tracing::warn!(%reason, "a publication is refused");
                    feed.withdraw();
                    refused(reason)
                }
            };
            done.push((*key, feed.connection, status));
        }
        for (key, connection, status) in done {
            let answer = match status {
                StatusCode::Ok => {
                    self.counts.ingest_published.one();
                    self.spoken(key, Answer::ok())
                }
                status => Answer::new(status),
            };
            self.settle(Some(connection), answer);
        }
    }

    /// Takes a packet within a connection; false if the channel is no publisher's.
    pub(crate) fn take_interleaved(
        &mut self,
        number: u64,
        (channel, body): (u8, std::ops::Range<usize>),
        now: Time,
    ) -> bool {
        let Some(connection) = self.connections.get(&number) else {
            return false;
        };
        let key = connection.channels.get(&channel);
        let Some(feed) = key.and_then(|key| self.feeds.get_mut(key)) else {
            return false;
        };
        feed.take(channel.into(), connection.bytes(body), (now, &self.counts))
    }

    /// Takes what came by datagrams; from others who came, it tells whether they lost a picture.
    pub(crate) fn take_datagrams(&mut self, now: Time) -> HashMap<(IpAddr, u16), bool> {
        let Self {
            datagrams,
            feeds,
            counts,
            ..
        } = self;
        // One pass over the sessions, however much of it is junk.
        let mut others: HashMap<_, bool> = HashMap::new();
        let mut all_lost = Vec::new();
        datagrams.heard(|source, bytes| {
            let source = (source.ip().to_canonical(), source.port());
            let is_taken = feeds.values_mut().any(|feed| {
                let is_own = feed.peer == source.0 && feed.is_by_datagrams();
                is_own && feed.take(source.1, bytes, (now, counts))
            });
            if !is_taken {
                let picture_lost = is_picture_lost(bytes);
                let lost = lost(bytes);
                all_lost.extend(lost.map(|(media, numbers)| (source.0, media, numbers)));
                *others.entry(source).or_default() |= picture_lost;
            }
        });
        self.send_again(all_lost);
        others
    }

    /// Reports to publishers, and ends those who are silent, refused, or waited too long.
    pub(crate) fn sweep_feeds(&mut self, now: Time) {
        if let Some(ingest) = &self.ingest {
            ingest.token.show(&ingest.client);
        }
        let timeout = self.settings.timeout;
        let (mut reports, mut late, mut gone, mut lost) = (vec![], vec![], vec![], vec![]);
        for (key, feed) in &mut self.feeds {
            match feed.state {
                State::Opening(until) if now >= until => late.push((*key, feed.connection)),
                // The broker takes it no more.
                State::Recording if feed.is_taken().is_err() => lost.push(feed.connection),
                _ if now.since(feed.heard) >= timeout => gone.push(*key),
                _ => {}
            }
            if feed.state == State::Recording && now.since(feed.reported) >= REPORT_EVERY {
                feed.reported = now;
                let places = 0..feed.inlets.len();
                let compounds = places.filter_map(|place| feed.report(place, now));
                reports.extend(compounds.map(|compound| (*key, compound)));
            }
        }
        for (key, compound) in reports {
            self.tell_publisher(key, compound);
        }
        for (key, connection) in late {
            if let Some(feed) = self.feeds.get_mut(&key) {
                feed.withdraw();
            }
            self.settle(
                Some(connection),
                Answer::new(StatusCode::ServiceUnavailable),
            );
        }
        self.counts.ingest_expired.add(gone.len() as u64);
        for key in gone {
            self.remove_feed(key);
        }
        // RTSP 1.0 has no other way to say so.
        for connection in lost {
            self.close(connection, crate::connection::End::Closed);
        }
    }

    fn tell_publisher(&mut self, key: u64, (to, bytes): (u16, Vec<u8>)) {
        let Some(feed) = self.feeds.get(&key) else {
            return;
        };
        let carrier = (feed.carrier, feed.connection);
        let hosts = (feed.peer, feed.local);
        let sent = Sent {
            to,
            is_rtcp: true,
            bytes,
        };
        self.send(carrier, hosts, &[sent]);
        // What waits in a connection is flushed with the next turn.
        self.roused.push(carrier.1);
    }
}

/// The status of a publisher whom the broker refuses.
pub(super) fn refused(reason: Refusal) -> StatusCode {
    match reason {
        Refusal::Forbidden | Refusal::Unauthenticated | Refusal::Expired => StatusCode::Forbidden,
        _ => StatusCode::ServiceUnavailable,
    }
}
