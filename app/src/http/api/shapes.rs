// tidy: data table
//! Documents of a broker that are none of its sessions.

use sangam_control::session::shapes::Kind::{Count, Number, Part, Parts, Text, Texts, Truth, Word};
use sangam_control::session::shapes::{Field, Shape, may, must, or_null, shape};

const ID: Field = must("id", Text, "The broker: 8 hexadecimal digits.");
const BY: Field = must(
    "by",
    Word(&["threshold", "configuration", "command"]),
    "Who said so.",
);
const RTCP: Field = must("rtcp", Word(&["next-port", "mux"]), "Where its RTCP goes.");
const HEIGHT: &str = "How high it is shown, in pixels up to 4320; 0 if it is not.";

/// Them, and their parts.
pub(super) const SHAPES: &[Shape] = &[
    shape(
        "alive",
        "The process runs.",
        &[must("status", Word(&["ok"]), "Always.")],
    ),
    shape(
        "ready",
        "The broker is ready for clients.",
        &[
            must("status", Word(&["ready"]), "Always."),
            must("links", Part("linksUp"), "Its links."),
            must("streams", Count, "Streams it knows."),
        ],
    ),
    shape(
        "linksUp",
        "How many links there are.",
        &[
            must("up", Count, "Those by which events flow."),
            must("configured", Count, "Neighbours by configuration."),
        ],
    ),
    shape(
        "broker",
        "A broker.",
        &[
            ID,
            must("incarnation", Count, "Which of its lives."),
            must("name", Text, "Its name."),
            must("version", Text, "Of the program."),
            must("uptime_s", Count, "For how long it has run."),
            must(
                "udp",
                Texts("at"),
                "Where it listens for clients and links.",
            ),
            must("tcp", Texts("at"), "The same for TCP."),
            must("tls", Texts("at"), "The same for TLS."),
            must("ws", Texts("at"), "The same for WebSockets."),
            must("wss", Texts("at"), "The same for WebSockets by TLS."),
            must("quic", Texts("at"), "Where it listens for clients by QUIC."),
            must(
                "quic_links",
                Texts("at"),
                "Where it listens for links by QUIC.",
            ),
            must("webrtc", Texts("at"), "Where it listens for WebRTC."),
            must("http", Text, "Where it listens for HTTP."),
            must("links", Parts("link", "link"), "Its links."),
            must("streams", Count, "Streams it knows."),
            must("clients", Count, "Clients it has."),
        ],
    ),
    shape(
        "link",
        "A link to a neighbour.",
        &[
            must("address", Text, "The neighbour's."),
            must(
                "transport",
                Word(&["udp", "quic", "tcp", "tls", "ws", "wss"]),
                "The way in use.",
            ),
            or_null("peer", Text, "The neighbour's id, once known."),
            must("state", Word(&["up", "down"]), "Whether events flow."),
            or_null("rtt_ms", Number, "The round trip, once measured."),
        ],
    ),
    shape(
        "streams",
        "Streams.",
        &[must("streams", Parts("stream", "stream"), "Them.")],
    ),
    shape(
        "stream",
        "A stream.",
        &[
            must("id", Text, "Its id: broker, incarnation, number."),
            must("topic", Text, "Its topic."),
            must("local", Truth, "Whether it enters the network here."),
            must("links", Count, "Neighbours it is sent to."),
            must("media", Part("media"), "What it carries."),
        ],
    ),
    shape(
        "media",
        "Media in SDP's terms (RFC 8866 section 6.6).",
        &[
            must("class", Text, "Such as `audio`, `video` or `data`."),
            must("encoding", Text, "Such as `H264` or `opus`."),
            must("payload_type", Count, "Of RTP."),
            must("clock_rate", Count, "In Hz."),
            must("channels", Count, "Of audio."),
            must("fmtp", Text, "Parameters of the format."),
        ],
    ),
    shape(
        "map",
        "The network as this broker knows it.",
        &[
            must("epoch", Text, "Changes with the map."),
            must(
                "brokers",
                Parts("mapped", "mapped"),
                "Its brokers, this one first.",
            ),
            must(
                "refused",
                Part("mapRefused"),
                "What others told and was not taken.",
            ),
        ],
    ),
    shape(
        "mapped",
        "A broker on the map.",
        &[
            ID,
            must("incarnation", Count, "Which of its lives."),
            must("region", Text, "Where it stands; may be empty."),
            must(
                "address",
                Text,
                "Where clients and links reach it; may be empty.",
            ),
            must("load_percent", Count, "How busy it is."),
            must("draining", Truth, "Whether it leaves."),
            must("reachable", Truth, "Whether a way leads there."),
            must("links", Parts("edge", "edge"), "Its links."),
        ],
    ),
    shape(
        "edge",
        "A link on the map.",
        &[
            must("to", Text, "The neighbour's id."),
            must("weight", Count, "What crossing it costs."),
        ],
    ),
    shape(
        "mapRefused",
        "News of the map that were not taken.",
        &[
            must("full", Count, "The map was full."),
            must("stale", Count, "Older than what was known."),
            must("invalid", Count, "Impossible."),
            must("identity", Count, "Not signed by whom it was about."),
            must("lost", Count, "Nobody could be told."),
        ],
    ),
    shape(
        "located",
        "Brokers for a client of a session.",
        &[
            must("session", Text, "The session."),
            must("brokers", Parts("place", "place"), "Them, the best first."),
        ],
    ),
    shape(
        "place",
        "A broker that a client may go to.",
        &[
            ID,
            must("address", Text, "Where it is reached by UDP."),
            must(
                "ways",
                Texts("way"),
                "Such as quic://203.0.113.7:4602, as far as is known here.",
            ),
            must("region", Text, "Where it stands; may be empty."),
            must("load_percent", Count, "How busy it is."),
        ],
    ),
    shape(
        "draining",
        "The broker leaves.",
        &[must("draining", Truth, "Always.")],
    ),
    shape(
        "weight",
        "A weight to be fixed.",
        &[must("weight", Count, "1 to 65535.")],
    ),
    shape(
        "linkRules",
        "What was said of links.",
        &[
            must("weights", Parts("fixed", "fixed"), "Fixed weights."),
            must(
                "forbidden",
                Parts("forbidden", "forbidden"),
                "Forbidden links.",
            ),
        ],
    ),
    shape(
        "fixed",
        "A fixed weight.",
        &[
            must("broker", Text, "The neighbour's id."),
            must("weight", Count, "What crossing the link costs."),
            BY,
        ],
    ),
    shape(
        "forbidden",
        "A forbidden link.",
        &[must("broker", Text, "The neighbour's id."), BY],
    ),
    shape(
        "legs",
        "RTP legs.",
        &[must("legs", Parts("leg", "leg"), "Them.")],
    ),
    shape(
        "leg",
        "An RTP leg.",
        &[
            must("name", Text, "Its name."),
            or_null(
                "topic",
                Text,
                "The topic it publishes, or the filter it sends.",
            ),
            or_null("receive", Text, "Where it takes RTP."),
            or_null("send", Text, "Where it sends RTP."),
            must("local", Text, "Its own address."),
            RTCP,
            or_null("stream", Text, "The stream that it publishes."),
            must("packets_received", Count, "So far."),
            must("packets_sent", Count, "So far."),
            or_null("sdp", Text, "Where its description for players is."),
        ],
    ),
    shape(
        "wantedLeg",
        "An RTP leg to be made.",
        &[
            must("name", Text, "Its name."),
            must(
                "topic",
                Text,
                "The topic to publish, or the filter to send.",
            ),
            may(
                "media",
                Part("legMedia"),
                "What it takes; needed with `receive`.",
            ),
            may(
                "receive",
                Text,
                "Where it takes RTP: an address of the broker's machine.",
            ),
            may("send", Text, "Where it sends RTP: within api.legs_allow."),
            may(
                "rtcp",
                Word(&["next-port", "mux"]),
                "Where its RTCP goes; `next-port` if not said.",
            ),
        ],
    ),
    shape(
        "orders",
        "Recordings of topics that are ordered.",
        &[must("recordings", Parts("recording", "order"), "Them.")],
    ),
    shape(
        "order",
        "A recording of topics that is ordered.",
        &[
            must("name", Text, "Its name, which the recording has, too."),
            must(
                "topics",
                Texts("topic"),
                "What is recorded; wildcards may be among them.",
            ),
            must(
                "reliable",
                Texts("topic"),
                "Reliable topics that are recorded.",
            ),
            must(
                "begin_ms",
                Count,
                "When it begins, in milliseconds since 1970.",
            ),
            or_null("end_ms", Count, "When it ends, if it does so by itself."),
            must(
                "state",
                Word(&["waiting", "recording", "failed"]),
                "How it is; what failed is begun again.",
            ),
            may("recording", Text, "The number of the recording."),
            may("packets", Count, "That came so far."),
            may("packets_safe", Count, "Those of them that are on the disk."),
            may("reason", Text, "Why it failed."),
        ],
    ),
    shape(
        "wantedOrder",
        "A recording of topics to be made.",
        &[
            must("name", Text, "Its name, of at most 64 bytes."),
            may(
                "topics",
                Texts("topic"),
                "What is recorded, with wildcards if wanted; at most 16.",
            ),
            may("reliable", Texts("topic"), "Reliable topics, at most 16."),
            may(
                "begin_ms",
                Count,
                "When, in milliseconds since 1970; at once if not said.",
            ),
            may(
                "seconds",
                Count,
                "For how long; until it is ended if not said.",
            ),
        ],
    ),
    shape(
        "legMedia",
        "What a leg takes.",
        &[
            must("encoding", Text, "Such as `H264` or `opus`."),
            must("payload_type", Count, "Of RTP."),
            must("clock_rate", Count, "In Hz."),
            may("channels", Count, "Of audio."),
            may("fmtp", Text, "Parameters of the format."),
            may(
                "class",
                Word(&["audio", "video"]),
                "Needed for encodings that are not known here.",
            ),
        ],
    ),
    shape(
        "peer",
        "A WebRTC peer.",
        &[
            must("connected", Truth, "Whether ICE and DTLS are through."),
            must("publishes", Texts("topic"), "Topics it publishes."),
            must(
                "plays",
                Parts("playing", "playing"),
                "The media it receives.",
            ),
        ],
    ),
    shape(
        "playing",
        "A medium that a peer receives.",
        &[
            must("mid", Text, "Which, as the offer calls it."),
            or_null("topic", Text, "What plays in it now."),
        ],
    ),
    shape(
        "height",
        "How high a peer shows a video.",
        &[
            must("mid", Text, "Which, as the offer calls it."),
            must("height", Count, HEIGHT),
        ],
    ),
    shape(
        "ice",
        "Relays, as RTCPeerConnection takes them.",
        &[
            must(
                "ice_servers",
                Parts("relay", "relay"),
                "Them; none if there are none.",
            ),
            or_null(
                "ttl_s",
                Count,
                "For how long the password is good, in seconds.",
            ),
        ],
    ),
    shape(
        "relay",
        "A relay (TURN).",
        &[
            must("urls", Texts("url"), "Where it is."),
            must("username", Text, "A name that ends."),
            must("credential", Text, "Its password."),
        ],
    ),
    shape(
        "page",
        "What the meeting page has to know before anything else.",
        &[
            must("version", Text, "Of the program."),
            must("brokers", Texts("url"), "Others where the page may go on."),
            must("sessions", Truth, "Whether sessions are hosted here."),
            must("webrtc", Truth, "Whether WebRTC is served here."),
            or_null(
                "login",
                Text,
                "The tenant whose meetings open to who logs in.",
            ),
        ],
    ),
];
