//! What is published now, for players: a client of a broker, and what it subscribed to.
//!
//! One subscription stands for a topic, however many play it. `watch` is one topic, `track` one
//! stream of it, `clock` when its timestamps were, `seat` what one player hears of it; `intake`
//! takes what the broker sends, `requests` answers what players ask.

mod clock;
mod intake;
mod requests;
mod seat;
mod track;
mod watch;

use std::collections::{BTreeMap, HashMap, HashSet};

use sangam_client::Client;
use sangam_model::{MediaInfo, StreamId, Time, Topic};

pub(crate) use seat::{Seat, Valve};

use crate::limits::{LINGER, RETURN_WAIT, STREAMS_MAX};
use crate::token::NewToken;
use track::{Track, is_played};
use watch::Watch;

/// A moment of this machine's clock since its epoch, by which live sources are reckoned.
pub(crate) const fn at(now: Time) -> std::time::Duration {
    track::Now { time: now, ntp: 0 }.at()
}

/// The client, and what is watched through it.
pub(crate) struct Live {
    pub(crate) client: Client,
    token: NewToken,
    /// What the broker announced of sound and picture.
    announced: HashMap<StreamId, (Topic, MediaInfo)>,
    /// Where it is played: topics watched, and the numbers of its tracks there.
    places: HashMap<StreamId, Vec<(u64, usize)>>,
    watches: BTreeMap<u64, Watch>,
    /// There may be more to take: the descriptor does not tell.
    pub(crate) has_more: bool,
}

impl Live {
    /// Watches nothing yet.
    pub(crate) fn new(client: Client, token: NewToken) -> Self {
        Self {
            client,
            token,
            announced: HashMap::new(),
            places: HashMap::new(),
            watches: BTreeMap::new(),
            has_more: true,
        }
    }

    /// Takes note of a stream: at how many topics players have it again.
    fn announce(&mut self, stream: StreamId, what: (Topic, MediaInfo), now: Time) -> u64 {
        let (topic, media) = what;
        let mut returned = 0;
        if !is_played(&media) || self.announced.len() >= STREAMS_MAX {
            return returned;
        }
        for (key, watch) in &mut self.watches {
            let found = watch.announced(stream, (&topic, &media), now);
            let Some((number, returns)) = found else {
                continue;
            };
            returned += u64::from(returns && !watch.sessions.is_empty());
            let places = self.places.entry(stream).or_default();
            if !places.contains(&(*key, number)) {
                places.push((*key, number));
            }
        }
        self.announced.insert(stream, (topic, media));
        returned
    }

    /// A stream is gone.
    fn retire(&mut self, stream: StreamId, now: Time) {
        self.announced.remove(&stream);
        for (key, number) in self.places.remove(&stream).unwrap_or_default() {
            if let Some(watch) = self.watches.get_mut(&key) {
                watch.retired(number, now);
            }
        }
    }

    /// All streams are gone: what the broker does not announce again stays so.
    fn retire_all(&mut self, now: Time) {
        self.announced.clear();
        for (key, number) in std::mem::take(&mut self.places).into_values().flatten() {
            if let Some(watch) = self.watches.get_mut(&key) {
                watch.retired(number, now);
            }
        }
    }

    /// The topic that a session watches loses it.
    pub(crate) fn leave(&mut self, watch: u64, session: u64, now: Time) {
        if let Some(watch) = self.watches.get_mut(&watch) {
            watch.sessions.retain(|known| *known != session);
            watch.left = now;
        }
    }

    /// Ends a subscription.
    fn drop_watch(&mut self, key: u64) {
        let Some(watch) = self.watches.remove(&key) else {
            return;
        };
        for places in self.places.values_mut() {
            places.retain(|(known, _)| *known != key);
        }
        self.places.retain(|_, places| !places.is_empty());
        if let Err(error) = self.client.unsubscribe(&watch.filter) {
            tracing::debug!(%error, topic = %watch.topic, "the subscription stays for now");
        }
    }

    /// Lets streams take the places of those that are gone or silent and were played: a publisher
    /// may be back before the broker has noticed that it went. How many did.
    fn hand_over(&mut self, played: &HashSet<(u64, usize)>, now: Time) -> u64 {
        let mut returned = 0;
        for (key, watch) in &mut self.watches {
            let is_played = |track: usize| played.contains(&(*key, track));
            // Each track once: what changes streams is not silent any more.
            while let Some(done) = watch.hand_over(now, is_played) {
                returned += 1;
                let moves = [
                    (Some(done.stream), done.from, done.to),
                    (done.instead, done.to, done.from),
                ];
                for (stream, from, to) in moves {
                    let Some(stream) = stream else {
                        continue;
                    };
                    let places = self.places.entry(stream).or_default();
                    places.retain(|place| *place != (*key, from));
                    places.push((*key, to));
                }
            }
        }
        returned
    }

    /// Tracks that were gone for so long that they are over: topics and numbers.
    fn over(&mut self, now: Time) -> HashSet<(u64, usize)> {
        let mut over = HashSet::new();
        for (key, watch) in &mut self.watches {
            for track in &mut watch.tracks {
                if track
                    .gone
                    .is_some_and(|gone| now.since(gone) >= RETURN_WAIT)
                {
                    track.gone = None;
                    over.insert((*key, track.number));
                }
            }
        }
        over
    }

    /// Ends subscriptions that nobody needs any more, and forgets tracks that are over and not
    /// played.
    fn tidy(&mut self, played: &HashSet<(u64, usize)>, now: Time) {
        for (key, watch) in &mut self.watches {
            let is_needed = |track: &Track| {
                let is_played = played.contains(&(*key, track.number));
                is_played || !track.is_over()
            };
            watch.tracks.retain(is_needed);
        }
        let idle = self.watches.iter().filter(|(_, watch)| {
            let is_left = watch.sessions.is_empty() && watch.askers.is_empty();
            is_left && watch.settles.is_none() && now.since(watch.left) >= LINGER
        });
        let idle: Vec<_> = idle.map(|(key, _)| *key).collect();
        for key in idle {
            self.drop_watch(key);
        }
    }
}
