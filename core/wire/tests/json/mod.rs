//! What was decoded, in the words of the vector files.

use sangam_model::{MediaInfo, PublisherId, StreamId};
use sangam_wire::feedback::Nack;
use sangam_wire::{
    Echo, Event, Feedback, Flags, Frame, Group, Heard, Hello, Hop, Join, LinkState, LinkView,
    Message, Piece, Record, Register, Reliable, Role, Route, Sources, Traffic, Version, WireError,
    rtcp, rtp,
};
use serde_json::{Value, json};

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digit = |c: u8| char::from(c).to_digit(16).expect("a hexadecimal digit") as u8;
    text.as_bytes()
        .chunks(2)
        .map(|pair| digit(pair[0]) << 4 | digit(pair[1]))
        .collect()
}

pub(crate) fn event(event: &Event<'_>) -> Value {
    let header = event.header;
    let extensions: Vec<_> = event
        .extensions
        .iter()
        .map(|(kind, value)| json!({ "type": kind, "value": hex(value) }))
        .collect();
    let mut out = json!({
        "class": header.class.name(),
        "flags": flags(header.flags),
        "stream": stream(header.stream),
        "sequence": header.sequence,
        "hop_limit": header.hop_limit,
        "layer": header.layer,
        "extensions": extensions,
        "payload": hex(event.payload),
    });
    if let Some(fragment) = event.extensions.fragment() {
        out["fragment"] = json!({ "offset": fragment.offset, "total": fragment.total });
    }
    if let Some(level) = event.extensions.audio_level() {
        out["audio_level"] = json!({ "voice": level.voice, "below": level.below });
    }
    if let Some(trace) = event.extensions.trace() {
        let hop = |hop: Hop| json!({ "broker": hop.broker.to_string(), "delay_us": hop.delay_us });
        out["trace"] = json!({
            "clock_domain": trace.clock_domain,
            "origin_us": trace.origin_us,
            "hops": trace.hops().map(hop).collect::<Vec<_>>(),
        });
    }
    out
}

pub(crate) fn flags(flags: Flags) -> Vec<&'static str> {
    let names = [
        (Flags::FRAME_START, "frame_start"),
        (Flags::FRAME_END, "frame_end"),
        (Flags::KEY, "key"),
        (Flags::DISCARDABLE, "discardable"),
        (Flags::FRAGMENT, "fragment"),
        (Flags::EXTENDED, "extended"),
    ];
    names
        .into_iter()
        .filter(|(flag, _)| flags.contains(*flag))
        .map(|(_, name)| name)
        .collect()
}

pub(crate) fn frame(frame: &Frame<'_>) -> Value {
    match frame {
        Frame::Hello(inner) => hello(inner),
        Frame::Retry { nonce, cookie } => {
            json!({ "frame": "retry", "nonce": wide(*nonce), "cookie": hex(cookie) })
        }
        Frame::Welcome(welcome) => json!({
            "frame": "welcome",
            "nonce": wide(welcome.nonce),
            "version": welcome.version,
            "capabilities": welcome.capabilities.0,
            "session": welcome.session,
            "control_port": welcome.control_port,
            "media_port": welcome.media_port,
            "datagram_max": welcome.datagram_max,
            "keepalive_ms": welcome.keepalive_ms,
            "clock_domain": welcome.clock_domain,
            "broker": welcome.broker.to_string(),
            "incarnation": welcome.incarnation.0,
        }),
        Frame::Refuse(refuse) => json!({
            "frame": "refuse",
            "nonce": wide(refuse.nonce),
            "reason": lower(refuse.reason),
            "retry_after_ms": refuse.retry_after_ms,
            "speaks": refuse.speaks,
        }),
        Frame::Ping {
            session,
            sent_us,
            traffic,
        } => json!({
            "frame": "ping",
            "session": session,
            "sent_us": sent_us,
            "traffic": traffic.map(traffic_of),
        }),
        Frame::Pong {
            session,
            echo_us,
            now_us,
            traffic,
        } => json!({
            "frame": "pong",
            "session": session,
            "echo_us": echo_us,
            "now_us": now_us,
            "traffic": traffic.map(traffic_of),
        }),
        Frame::Echo(echo) => echo_of(*echo),
        Frame::Control {
            session,
            sequence,
            ack,
            ..
        } => json!({
            "frame": "control",
            "session": session,
            "sequence": sequence,
            "ack": ack,
            "messages": carried(frame),
        }),
        Frame::Ack { session, ack } => json!({ "frame": "ack", "session": session, "ack": ack }),
        Frame::Bye { session, reason } => {
            json!({ "frame": "bye", "session": session, "reason": lower(reason) })
        }
        Frame::Beacon { stream: id } => json!({ "frame": "beacon", "stream": stream(*id) }),
    }
}

fn traffic_of(traffic: Traffic) -> Value {
    json!({ "packets": traffic.packets, "bytes": traffic.bytes })
}

fn echo_of(echo: Echo) -> Value {
    let heard_of = |heard: Heard| {
        json!({ "echo_us": heard.echo_us, "held_us": heard.held_us,
            "packets": heard.packets, "bytes": heard.bytes })
    };
    json!({ "frame": "echo", "session": echo.session, "now_us": echo.now_us,
        "asks": echo.asks, "quiet": echo.quiet, "heard": echo.heard.map(heard_of) })
}

fn carried(frame: &Frame<'_>) -> Vec<Value> {
    let show = |read: Result<Message, WireError>| result(read.as_ref(), message);
    frame.messages().map(show).collect()
}

fn hello(hello: &Hello) -> Value {
    let role = match hello.role {
        Role::Client => json!("client"),
        Role::Broker(broker, incarnation) => {
            json!({ "broker": broker.to_string(), "incarnation": incarnation.0 })
        }
    };
    json!({
        "frame": "hello",
        "role": role,
        "version_min": hello.version_min,
        "version_max": hello.version_max,
        "capabilities": hello.capabilities.0,
        "nonce": wide(hello.nonce),
        "datagram_max": hello.datagram_max,
        "clock_domain": hello.clock_domain,
        "cookie": hello.cookie.map(|cookie| hex(&cookie)),
    })
}

pub(crate) fn message(message: &Message) -> Value {
    let name = |name: &str, mut fields: Value| {
        fields["message"] = json!(name);
        fields
    };
    match message {
        Message::Subscribe { request, filter } => name(
            "subscribe",
            json!({ "request": request, "filter": filter.as_str() }),
        ),
        Message::Unsubscribe { request, filter } => name(
            "unsubscribe",
            json!({ "request": request, "filter": filter.as_str() }),
        ),
        Message::Publish {
            request,
            topic,
            media: info,
        } => name(
            "publish",
            json!({ "request": request, "topic": topic.as_str(), "media": media(info) }),
        ),
        Message::Published {
            request,
            stream: id,
        } => name(
            "published",
            json!({ "request": request, "stream": stream(*id) }),
        ),
        Message::Unpublish { stream: id } => name("unpublish", json!({ "stream": stream(*id) })),
        Message::Accepted { request } => name("accepted", json!({ "request": request })),
        Message::Refused { request, reason } => name(
            "refused",
            json!({ "request": request, "reason": lower(reason) }),
        ),
        Message::Announce {
            stream: id,
            topic,
            media: info,
        } => name(
            "announce",
            json!({ "stream": stream(*id), "topic": topic.as_str(), "media": media(info) }),
        ),
        Message::Retire { stream: id } => name("retire", json!({ "stream": stream(*id) })),
        Message::Group { stream: id, group } => name(
            "group",
            json!({ "stream": stream(*id), "group": group.map(self::group) }),
        ),
        Message::Hearing { stream: id, hears } => {
            name("hearing", json!({ "stream": stream(*id), "hears": hears }))
        }
        Message::LinkState(state) => name("link-state", link_state(state)),
        Message::Digest { last, entries } => name("digest", digest(*last, entries)),
        Message::Join(join) => name("join", self::join(join)),
        Message::Register(register) => name("register", self::register(register)),
        Message::Sources(sources) => name("sources", self::sources(sources)),
        Message::Reliable(reliable) => self::reliable(reliable),
        Message::Carried(route, reliable) => {
            let mut fields = self::reliable(reliable);
            fields["route"] = self::route(*route);
            fields
        }
        Message::Authenticate { request, token } => name(
            "authenticate",
            json!({ "request": request, "token": token }),
        ),
    }
}

fn group(group: Group) -> Value {
    json!({ "address": group.address, "source": group.source })
}

fn reliable(reliable: &Reliable) -> Value {
    match reliable {
        Reliable::Push {
            topic,
            publisher,
            base,
            first,
            pieces,
        } => {
            let piece = |piece: &Piece| {
                let payload = hex(&piece.payload);
                json!({ "flags": piece.flags.bits(), "payload": payload })
            };
            let pieces: Vec<_> = pieces.iter().map(piece).collect();
            json!({ "message": "push", "topic": topic.as_str(), "publisher": publisher.to_string(),
                    "base": base, "first": first, "pieces": pieces })
        }
        Reliable::Held {
            publisher,
            through,
            next,
            again,
        } => json!({ "message": "held", "publisher": publisher.to_string(), "through": through,
                     "next": next, "again": again }),
        Reliable::Attach {
            feed,
            topic,
            replay,
            part,
            parts,
            positions,
        } => {
            let position = |(id, last): &(PublisherId, u64)| json!([id.to_string(), last]);
            let positions: Vec<_> = positions.iter().map(position).collect();
            json!({ "message": "attach", "feed": format!("{feed:016x}"), "topic": topic.as_str(),
                    "replay": replay, "part": part, "parts": parts, "positions": positions })
        }
        Reliable::Records {
            feed,
            index,
            all_sent,
            records,
        } => {
            let record = |record: &Record| {
                json!({ "publisher": record.publisher.to_string(), "sequence": record.sequence,
                        "flags": record.flags.bits(), "payload": hex(&record.payload) })
            };
            let records: Vec<_> = records.iter().map(record).collect();
            json!({ "message": "records", "feed": format!("{feed:016x}"), "index": index,
                    "all_sent": all_sent, "records": records })
        }
        Reliable::Taken { feed, next } => {
            json!({ "message": "taken", "feed": format!("{feed:016x}"), "next": next })
        }
        Reliable::End { id, reason } => {
            json!({ "message": "end", "id": format!("{id:016x}"), "reason": lower(reason) })
        }
        Reliable::Offer { topic } => json!({ "message": "offer", "topic": topic.as_str() }),
    }
}

fn digest(last: bool, entries: &[Version]) -> Value {
    let entries: Vec<_> = entries.iter().map(|entry| version(*entry)).collect();
    json!({ "last": last, "entries": entries })
}

fn link_state(state: &LinkState) -> Value {
    let link = |link: &LinkView| json!({ "to": link.to.to_string(), "weight": link.weight });
    json!({
        "version": version(state.version),
        "draining": state.draining,
        "keeps": state.keeps,
        "organises": state.organises,
        "load": state.load,
        "region": state.region,
        "address": state.address,
        "links": state.links.iter().map(link).collect::<Vec<_>>(),
        "ways": state.ways,
    })
}

fn join(join: &Join) -> Value {
    json!({
        "origin": join.origin.to_string(),
        "avoid": join.avoid.map(|id| id.to_string()),
        "classes": join.classes,
        "scope": join.scope.as_str(),
        "part": join.part,
        "parts": join.parts,
        "filters": join.filters.iter().map(|filter| filter.as_str()).collect::<Vec<_>>(),
    })
}

fn register(register: &Register) -> Value {
    json!({
        "route": route(register.route),
        "scope": register.scope.as_str(),
        "source": register.source,
        "sink": register.sink,
    })
}

fn sources(sources: &Sources) -> Value {
    json!({
        "route": route(sources.route),
        "scope": sources.scope.as_str(),
        "part": sources.part,
        "parts": sources.parts,
        "brokers": sources.brokers.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn version(version: Version) -> Value {
    json!({
        "origin": version.origin.to_string(),
        "incarnation": version.incarnation.0,
        "sequence": version.sequence,
    })
}

fn route(route: Route) -> Value {
    json!({
        "to": route.to.to_string(),
        "from": route.from.to_string(),
        "hop_limit": route.hop_limit,
    })
}

fn media(media: &MediaInfo) -> Value {
    json!({
        "class": media.class.name(),
        "payload_type": media.payload_type,
        "channels": media.channels,
        "clock_rate": media.clock_rate,
        "encoding": media.encoding,
        "fmtp": media.fmtp,
    })
}

pub(crate) fn feedback(feedback: &Feedback) -> Value {
    match feedback {
        Feedback::KeyFrame => json!({ "feedback": "key_frame" }),
        Feedback::Nack(nack) => json!({
            "feedback": "nack",
            "first": nack.first,
            "also": nack.also,
            "lost": nack.sequences().collect::<Vec<_>>(),
        }),
        Feedback::Report(report) => json!({
            "feedback": "report",
            "fraction_lost": report.fraction_lost,
            "highest": report.highest,
            "jitter_us": report.jitter_us,
            "capacity_kbps": report.capacity_kbps,
        }),
    }
}

pub(crate) fn rtp(packet: &rtp::Packet<'_>) -> Value {
    let extension = |(profile, value)| json!({ "profile": profile, "value": hex(value) });
    json!({
        "marker": packet.header.marker,
        "payload_type": packet.header.payload_type,
        "sequence": packet.header.sequence,
        "timestamp": packet.header.timestamp,
        "ssrc": packet.header.ssrc,
        "csrc_count": packet.csrc_count,
        "extension": packet.extension.map(extension),
        "payload": hex(packet.payload),
        "padding_len": packet.padding_len,
    })
}

pub(crate) fn rtcp(packet: &rtcp::Packet<'_>) -> Value {
    match packet {
        rtcp::Packet::SenderReport(info, blocks) => json!({
            "packet": "sender_report",
            "ssrc": info.ssrc,
            "ntp": wide(info.ntp),
            "timestamp": info.timestamp,
            "packets": info.packets,
            "bytes": info.bytes,
            "blocks": blocks.iter().map(block).collect::<Vec<_>>(),
        }),
        rtcp::Packet::ReceiverReport(ssrc, blocks) => json!({
            "packet": "receiver_report",
            "ssrc": ssrc,
            "blocks": blocks.iter().map(block).collect::<Vec<_>>(),
        }),
        rtcp::Packet::SourceName(ssrc, cname) => {
            let cname = String::from_utf8_lossy(cname);
            json!({ "packet": "source_name", "ssrc": ssrc, "cname": cname })
        }
        rtcp::Packet::Bye(sources) => {
            json!({ "packet": "bye", "sources": sources.iter().collect::<Vec<_>>() })
        }
        rtcp::Packet::Nack(target, nacks) => {
            let item = |nack: Nack| json!({ "first": nack.first, "also": nack.also });
            let items: Vec<_> = nacks.iter().map(item).collect();
            let (sender, media) = (target.sender, target.media);
            json!({ "packet": "nack", "sender": sender, "media": media, "items": items })
        }
        rtcp::Packet::PictureLoss(target) => {
            json!({ "packet": "picture_loss", "sender": target.sender, "media": target.media })
        }
        rtcp::Packet::FullIntra(ssrc) => json!({ "packet": "full_intra", "ssrc": ssrc }),
        rtcp::Packet::Other(kind) => json!({ "packet": "other", "type": kind }),
    }
}

fn block(block: rtcp::Block) -> Value {
    json!({
        "ssrc": block.ssrc,
        "fraction_lost": block.fraction_lost,
        "lost": block.lost,
        "highest": block.highest,
        "jitter": block.jitter,
        "last_report": block.last_report,
        "delay": block.delay,
    })
}

/// What was decoded, or the error's name.
pub(crate) fn result<T>(result: Result<&T, &WireError>, show: impl Fn(&T) -> Value) -> Value {
    result.map_or_else(|error| json!({ "error": error.name() }), show)
}

fn stream(id: StreamId) -> String {
    id.to_string()
}

/// 64 bits exceed what JSON's numbers hold everywhere.
fn wide(number: u64) -> String {
    format!("{number:016x}")
}

fn lower(name: impl std::fmt::Debug) -> String {
    format!("{name:?}").to_lowercase()
}
