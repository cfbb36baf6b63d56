//! What the server counts; every refusal has its number.

use std::sync::atomic::{AtomicU64, Ordering};

use sangam_io::count::Count;

/// Name, explanation and value of a count.
pub type Counted = (&'static str, &'static str, u64);

/// A number as Prometheus wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, such as `sangam_rtsp_plays_total`.
    pub name: &'static str,
    /// One line for people.
    pub help: &'static str,
    /// Whether it only rises.
    pub is_counter: bool,
    /// Its value now.
    pub value: u64,
}

/// What there is now, as of the last second.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    pub(crate) connections: AtomicU64,
    pub(crate) players: AtomicU64,
    pub(crate) publishers: AtomicU64,
    /// Whether the broker is reached.
    pub(crate) broker: AtomicU64,
    /// When that was, in microseconds.
    pub(crate) swept: AtomicU64,
}

impl Levels {
    /// All of them.
    pub(crate) fn metrics(&self) -> [Metric; 4] {
        let one = |name, help, value: &AtomicU64| Metric {
            name,
            help,
            is_counter: false,
            value: value.load(Ordering::Relaxed),
        };
        [
            one(
                "sangam_rtsp_connections",
                "Connections now",
                &self.connections,
            ),
            one(
                "sangam_rtsp_players",
                "Sessions now that play, or may",
                &self.players,
            ),
            one(
                "sangam_rtsp_publishers",
                "Sessions now that publish, or may",
                &self.publishers,
            ),
            one(
                "sangam_rtsp_broker_up",
                "Whether the broker is reached",
                &self.broker,
            ),
        ]
    }
}

macro_rules! counts {
    ($($field:ident, $help:literal;)*) => {
        /// Numbers that only rise.
        #[derive(Debug, Default)]
        pub(crate) struct Counts {
            $(#[doc = $help] pub(crate) $field: Count,)*
        }

        impl Counts {
            /// All of them.
            pub(crate) fn all(&self) -> Vec<Counted> {
                vec![$((stringify!($field), $help, self.$field.get())),*]
            }

            /// The same by their names in metrics.
            pub(crate) fn metrics(&self) -> Vec<Metric> {
                vec![$(Metric {
                    name: concat!("sangam_rtsp_", stringify!($field), "_total"),
                    help: $help,
                    is_counter: true,
                    value: self.$field.get(),
                }),*]
            }
        }
    };
}

counts! {
    connections, "Connections accepted";
    connections_refused, "Connections closed at once: there are too many, in all or of one address";
    connections_idle, "Connections closed: no session, and nothing said for a minute";
    connections_flooded, "Connections closed: they sent more than one request may have";
    connections_unread, "Connections closed: they did not read what they had asked for";
    connections_insecure, "Connections by TLS closed: no handshake, or certificate not believed";
    requests, "Requests understood";
    malformed, "Requests that are none (400)";
    unknown_method, "Requests with a method that is not known (501)";
    unknown_version, "Requests of another version than 1.0 and 2.0 (505)";
    unknown_option, "Requests that require an option that is not known (551)";
    unauthorized, "Requests with a wrong password, or with an answer to no challenge (401)";
    forbidden, "Requests for topics that the broker does not grant this server (403)";
    not_found, "Requests for what is neither recorded nor published (404)";
    not_allowed, "ANNOUNCE where nothing may be published (405)";
    wrong_description, "Descriptions of what is not taken, or of too much (413, 415)";
    unknown_parameter, "Requests for parameters: there are none (451)";
    no_session, "Requests for sessions that are not there (454)";
    wrong_state, "Requests that make no sense at their moment (455, 459)";
    wrong_range, "Ranges beyond the end, or not understood (456, 457)";
    wrong_transport, "SETUP with no transport that is possible (461)";
    busy, "Requests refused: archive or broker does not keep up, or too many ask (503)";
    failed, "Requests that the archive failed (500), and films that it ended";
    sessions, "Sessions set up";
    sessions_refused, "Sessions refused: there are too many, in all or of one address (453)";
    not_admitted, "Sessions refused: network, processor or disks carry no more (453)";
    sessions_expired, "Sessions ended: not heard of for a minute";
    sessions_abandoned, "Sessions ended with their connection";
    plays, "PLAY answered";
    notified, "Ends that clients of RTSP 2.0 were told of (PLAY_NOTIFY)";
    packets, "RTP packets sent";
    bytes, "Bytes of RTP sent";
    unsent_full, "Packets not sent: the socket's buffer was full";
    unsent_failed, "Packets not sent: their destination refuses them";
    unreadable, "Packets of recordings that are no RTP";
    late, "Times a film was not read from the disk in time";
    stalled, "Times a film waited for a client that did not read";
    rate_changes, "Times a client asked for another rate";
    nodes_lost, "Times another node of the archive went away";
    ended, "Films played to the end of their range";
    ingest_links, "Times the publishers' link to the broker came up";
    ingest_published, "Publications begun";
    ingest_packets, "RTP packets of publishers";
    ingest_bytes, "Bytes of those";
    ingest_reports, "RTCP compounds of publishers";
    ingest_malformed, "Packets of publishers that are no RTP, or of another payload type";
    ingest_early, "Packets of publishers thrown away: before RECORD, or after PAUSE";
    ingest_dropped, "Packets of publishers that the link to the broker did not take";
    ingest_key_frames, "Key frames that publishers were asked for";
    ingest_expired, "Publications ended: nothing came for a minute";
    live_links, "Times the link to the broker came up";
    live_topics, "Topics that were subscribed to for players";
    live_events, "Live events received: each once, however many players it goes to";
    live_malformed, "Live events that are none, or carry no RTP";
    live_unwatched, "Live events without a track: data, streams beyond 16 or not announced yet";
    live_early, "Live packets of video not sent: before the key frame with which a player begins";
    live_unread, "Live packets not sent: their player does not read its connection in time";
    live_key_frames, "Key frames asked for";
    live_pictures_lost, "Players' reports that a picture was lost";
    live_returned, "Live streams that came back to their players";
    live_ended, "Live streams that ended for a player";
}
