//! Who is not heard of ends.

use sangam_model::Time;

use crate::connection::End;
use crate::player::State;
use crate::server::Settings;
use crate::session::{Carrier, Show};
use crate::turn::{Engine, Key, SWEEP_EVERY};

impl Engine {
    /// Ends whom nobody hears of.
    pub(crate) fn sweep(&mut self, now: Time) {
        self.wheel.set(Key::Sweep, now + SWEEP_EVERY);
        self.measure(now);
        self.listen(true);
        self.sweep_live(now);
        self.sweep_feeds(now);
        self.sweep_nodes(now);
        let Settings {
            timeout, patience, ..
        } = self.settings;
        let is_silent = |heard: Time| now.since(heard) >= timeout;
        let stuck = self.connections.iter().filter(|(_, connection)| {
            let since = connection.waits_since;
            since.is_some_and(|since| now.since(since) >= patience)
        });
        let stuck: Vec<_> = stuck.map(|(number, _)| *number).collect();
        for number in stuck {
            self.close(number, End::Unread);
        }
        // Who takes a film within a connection is there; of what is live nothing may come.
        let gone = self.sessions.iter().filter(|(_, session)| {
            let is_film = matches!(session.show, Show::Film(_));
            let is_playing = is_film && session.state() == State::Playing;
            let reads = session.carrier == Carrier::Interleaved && is_playing;
            !reads && is_silent(session.heard)
        });
        let gone: Vec<_> = gone.map(|(number, _)| *number).collect();
        self.counts.sessions_expired.add(gone.len() as u64);
        for number in gone {
            self.remove(number);
        }
        let idle = self.connections.iter().filter(|(number, connection)| {
            let mut sessions = self.sessions.values();
            let has_session = sessions.any(|session| session.connection == **number);
            let mut feeds = self.feeds.values();
            let has_feed = feeds.any(|feed| feed.connection == **number);
            !has_session && !has_feed && is_silent(connection.heard)
        });
        let idle: Vec<_> = idle.map(|(number, _)| *number).collect();
        self.counts.connections_idle.add(idle.len() as u64);
        for number in idle {
            self.close(number, End::Closed);
        }
    }
}
