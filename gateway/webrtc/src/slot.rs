//! One medium towards a peer, and what plays in it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sangam_io::port::{Action, PeerKey};
use sangam_model::{Class, Filter, MediaInfo, StreamId, Time, Topic};
use sangam_wire::feedback::Feedback;
use sangam_wire::rtp::Encoding;
use str0m::format::{Codec, CodecSpec};
use str0m::media::{Mid, Pt};
use str0m::rtp::{RtpWrite, Ssrc};

use crate::counts::Counts;
use crate::item::Item;
use crate::layers::Ladder;
use crate::offer::codec;
use crate::redundancy::Redundancy;
use crate::rewrite::{Picture, Rewrite};
use crate::shown::height_of;

/// A key frame that does not come is asked for again after so long.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// The number of requests whose answers do not matter: an announcement follows or does not.
pub(crate) const LAYER_REQUEST: u32 = u32::MAX;

/// One medium towards the peer.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) mid: Mid,
    pub(crate) class: Class,
    pub(crate) ssrc: Ssrc,
    /// What the peer takes, in its order of preference.
    pub(crate) formats: Vec<(Pt, CodecSpec)>,
    /// If it prefers its sound so.
    pub(crate) redundancy: Option<Redundancy>,
    pub(crate) source: Option<Source>,
    pub(crate) rewrite: Rewrite,
    /// How high the peer shows it, in pixels, if it has told.
    pub(crate) shown: Option<u16>,
}

/// What plays in a medium: one stream, or layers of the same video.
#[derive(Debug)]
pub(crate) struct Source {
    /// The topic without the layer's number.
    pub(crate) base: String,
    pub(crate) layered: bool,
    pub(crate) streams: Vec<Stream>,
    /// Whose packets are sent.
    pub(crate) active: Option<StreamId>,
    pub(crate) ladder: Ladder,
    /// Nobody sees it: nothing is sent.
    pub(crate) hidden: bool,
    /// When a key frame was asked for.
    pub(crate) asked: Time,
}

/// A stream that a source consists of.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    pub(crate) topic: Topic,
    pub(crate) media: MediaInfo,
    pub(crate) layer: u8,
    pub(crate) pt: Option<Pt>,
}

/// A packet that was written, as it is known on its way out: SRTP encrypts no header (RFC 3711
/// section 3.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    ssrc: u32,
    sequence: u16,
}

impl Written {
    /// Whether this datagram carries it.
    pub(crate) fn is(self, datagram: &[u8]) -> bool {
        datagram.get(2..4) == Some(&self.sequence.to_be_bytes())
            && datagram.get(8..12) == Some(&self.ssrc.to_be_bytes())
    }
}

/// What egress wants of the broker.
pub(crate) struct Wishes<'a, 'b> {
    pub(crate) peer: PeerKey,
    pub(crate) cx: &'a mut sangam_io::port::Context<'b>,
    pub(crate) counts: &'a Counts,
}

impl Slot {
    /// The payload type under which a stream is sent here.
    pub(crate) fn format(&self, media: &MediaInfo) -> Option<Pt> {
        let wanted = codec(&media.encoding)?;
        let same = self.formats.iter().filter(|(_, spec)| spec.codec == wanted);
        let mut same = same.map(|(pt, spec)| (*pt, spec));
        if wanted != Codec::H264 {
            return same.next().map(|(pt, _)| pt);
        }
        // RFC 6184 section 8.1: packets of mode 1 may not go to who takes mode 0 only; of the
        // rest the profile decides, and decoders mostly take more than they say.
        let given = str0m::format::FormatParams::parse_line(&media.fmtp);
        let profile = |level: Option<u32>| level.map(|level| level >> 16);
        let likeness = |spec: &CodecSpec| {
            let mode = spec.format.packetization_mode >= Some(1);
            let alike = profile(spec.format.profile_level_id) == profile(given.profile_level_id);
            (mode, alike)
        };
        same.max_by_key(|(_, spec)| likeness(spec))
            .map(|(pt, _)| pt)
    }

    /// The packet as it is sent; `None` if it is not.
    pub(crate) fn packet(
        &mut self,
        item: &mut Item,
        at: Instant,
        wishes: &mut Wishes<'_, '_>,
    ) -> Option<(RtpWrite, Written)> {
        let now = wishes.cx.now;
        let source = self.source.as_mut()?;
        if source.hidden {
            return None;
        }
        source.learn(item);
        if source.active != Some(item.stream) && !self.rewrite_for(item, wishes) {
            return None;
        }
        let source = self.source.as_mut()?;
        let stream = source
            .streams
            .iter()
            .find(|stream| stream.id == item.stream)?;
        let pt = stream.pt?;
        if item.begins {
            self.rewrite.resume(item.sequence);
        }
        let place = self.rewrite.place(item.place(), now)?;
        let redundancy = self.redundancy.as_mut();
        let (pt, payload) = match redundancy.and_then(|one| one.wrap(pt, item, place)) {
            Some(wrapped) => {
                wishes.counts.red_sent.one();
                wrapped
            }
            None => (pt, Arc::clone(&item.payload)),
        };
        source.ladder.sent(payload.len(), now);
        let (sequence, timestamp) = (place.sequence.into(), place.timestamp);
        let mut write = RtpWrite::new(pt, sequence, timestamp, at, payload);
        if source.layered && codec(&stream.media.encoding) == Some(Codec::Vp8) {
            if item.picture.is_none() {
                item.picture = Picture::read(&item.payload);
            }
            let patch = item
                .picture
                .and_then(|picture| self.rewrite.picture(&picture));
            if let Some(patch) = patch {
                write = write.vp8_patch(patch);
            }
        }
        let write = write.marker(item.marker).ext_vals(item.extensions());
        let written = Written {
            ssrc: *self.ssrc,
            sequence: place.sequence as u16,
        };
        Some((write.nackable(item.video), written))
    }

    /// Lets another stream take over with this packet, if it is time; whether it did.
    fn rewrite_for(&mut self, item: &Item, wishes: &mut Wishes<'_, '_>) -> bool {
        let now = wishes.cx.now;
        let Some(source) = self.source.as_mut() else {
            return false;
        };
        let stream = source
            .streams
            .iter()
            .find(|stream| stream.id == item.stream);
        let Some(stream) = stream else { return false };
        let clock_rate = stream.media.clock_rate;
        let shows_keys = Encoding::from_name(&stream.media.encoding) != Encoding::Other;
        let wanted = !source.layered || source.is_wanted(stream.layer);
        if !wanted {
            return false;
        }
        if item.video && shows_keys && !item.begins {
            if source.active.is_none() {
                wishes.counts.awaiting_key.one();
            }
            if now - source.asked >= ASK_AGAIN {
                source.ask(wishes);
            }
            return false;
        }
        if source.active.is_some() {
            wishes.counts.layer_switches.one();
        }
        source.active = Some(item.stream);
        source.ladder.reached(item.layer, now);
        source.leave_others(wishes);
        self.rewrite.begin(item.place(), clock_rate, now);
        true
    }
}

impl Source {
    /// The peer shows it so high, in pixels; 0 if it does not.
    pub(crate) fn show(&mut self, height: u16, wishes: &mut Wishes<'_, '_>) {
        let hidden = std::mem::replace(&mut self.hidden, height == 0);
        if self.hidden {
            self.active = None;
            self.ladder.rest(wishes.cx.now);
            self.leave_others(wishes);
            return;
        }
        self.ladder.show(height);
        match hidden {
            true => self.ask(wishes),
            false => self.climb(wishes),
        }
    }

    /// Key frames tell how high a layer is.
    fn learn(&mut self, item: &Item) {
        if self.layered
            && item.begins
            && let Some(height) = height_of(&item.payload)
        {
            self.ladder.learn(item.layer, height);
        }
    }

    /// A stream is gone; whether it was the last.
    pub(crate) fn lose(&mut self, id: StreamId) -> bool {
        let Some(at) = self.streams.iter().position(|stream| stream.id == id) else {
            return false;
        };
        let lost = self.streams.swap_remove(at);
        if self.active == Some(id) {
            self.active = None;
            self.ladder.went(lost.layer);
        }
        self.streams.is_empty()
    }

    /// Whether packets of this layer should take over when they can.
    fn is_wanted(&self, layer: u8) -> bool {
        let highest = self.streams.iter().map(|stream| stream.layer);
        let here = highest.filter(|layer| *layer <= self.ladder.wanted()).max();
        here == Some(layer)
    }

    /// Asks for a key frame of what should be sent.
    pub(crate) fn ask(&mut self, wishes: &mut Wishes<'_, '_>) {
        if self.hidden {
            return;
        }
        self.asked = wishes.cx.now;
        let wanted = self.streams.iter();
        let wanted = wanted.filter(|stream| !self.layered || self.is_wanted(stream.layer));
        for stream in wanted.filter(|stream| stream.media.class == Class::Video) {
            let about = (stream.id, stream.layer);
            let event = sangam_io::port::feedback(about, &Feedback::KeyFrame, wishes.cx.pool);
            if let Some(packet) = event {
                let peer = wishes.peer;
                wishes.cx.actions.push(Action::Feedback { peer, packet });
            }
        }
    }

    /// Subscribes to the layer that is wanted, if it is not there. The lowest always is, so that
    /// there is something to fall back to.
    pub(crate) fn climb(&mut self, wishes: &mut Wishes<'_, '_>) {
        let wanted = self.ladder.wanted();
        let there = self.streams.iter().any(|stream| stream.layer == wanted);
        if there {
            let behind = wishes.cx.now - self.asked >= ASK_AGAIN;
            let waits = self
                .streams
                .iter()
                .any(|stream| self.is_wanted(stream.layer) && self.active != Some(stream.id));
            if waits && behind {
                self.ask(wishes);
            }
            return;
        }
        if self.ladder.is_due(wishes.cx.now) {
            self.subscribe(wanted, true, wishes);
        }
    }

    /// Ends the subscriptions to layers above the lowest that are not sent any more.
    fn leave_others(&mut self, wishes: &mut Wishes<'_, '_>) {
        let active = self.active;
        let upper = self.streams.iter().filter(|stream| stream.layer > 0);
        let idle: Vec<u8> = upper
            .filter(|stream| self.layered && Some(stream.id) != active)
            .map(|stream| stream.layer)
            .collect();
        for layer in idle {
            self.subscribe(layer, false, wishes);
        }
    }

    fn subscribe(&self, layer: u8, on: bool, wishes: &mut Wishes<'_, '_>) {
        let Ok(filter) = Filter::new(&format!("{}/{layer}", self.base)) else {
            return;
        };
        let (peer, request) = (wishes.peer, LAYER_REQUEST);
        wishes.cx.actions.push(match on {
            true => Action::Subscribe {
                peer,
                request,
                filter,
            },
            false => Action::Unsubscribe {
                peer,
                request,
                filter,
            },
        });
    }
}

/// The topic of a layered video and the layer, if it is one: `.../video/2`.
pub(crate) fn layer_of(topic: &Topic) -> Option<(&str, u8)> {
    let (base, layer) = topic.as_str().rsplit_once('/')?;
    let name = base.rsplit('/').next()?;
    let layer = layer.parse().ok()?;
    (name == "video" || name.starts_with("video-")).then_some((base, layer))
}
