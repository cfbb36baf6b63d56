//! Events become RTP of a subscriber: which stream goes into which medium, and in which layer.

use std::time::Instant;

use sangam_model::{Class, Filter, MediaInfo, StreamId, Time, Topic};
use str0m::Rtc;
use str0m::media::Mid;

use crate::item::Item;
use crate::layers::Ladder;
use crate::offer::Offer;
use crate::redundancy::Redundancy;
use crate::rewrite::Rewrite;
use crate::shown::Shown;
use crate::slot::{Slot, Source, Stream, Wishes, Written, layer_of};

/// Streams that wait for a free medium; more are not remembered.
const WAITING: usize = 256;
/// Where the first packet of each medium is counted from.
const FIRST_SEQUENCE: u16 = 1;

/// What a peer receives.
#[derive(Debug, Default)]
pub(crate) struct Egress {
    slots: Vec<Slot>,
    /// Streams that no medium is free for, or none takes.
    waiting: Vec<Stream>,
    connected: bool,
}

impl Egress {
    /// One slot for each medium that the peer wants to receive.
    pub(crate) fn of(offer: &Offer, rtc: &mut Rtc) -> Self {
        let mut slots = Vec::new();
        for medium in offer.media.iter().filter(|medium| !medium.rejected) {
            let mid: Mid = medium.mid.as_str().into();
            let Some(media) = rtc
                .media(mid)
                .filter(|media| media.direction().is_sending())
            else {
                continue;
            };
            let taken = media.remote_pts();
            let formats = taken.iter().filter_map(|pt| {
                let known = rtc.codec_config().params().iter();
                let known = known.map(|one| (one.pt(), one.spec()));
                known.into_iter().find(|(known, _)| known == pt)
            });
            let formats = formats.collect();
            let mut known = rtc.codec_config().params().iter();
            let redundancy = known.find_map(|one| {
                let red = one.red().filter(|_| taken.contains(&one.pt()))?;
                Some(Redundancy::new(one.pt(), red))
            });
            let mut api = rtc.direct_api();
            let Some(sender) = api.stream_tx_by_mid(mid, None) else {
                continue;
            };
            // Timers of ours are too coarse to pace by, and what is queued here is late.
            sender.set_unpaced(true);
            slots.push(Slot {
                mid,
                class: medium.class(),
                ssrc: sender.ssrc(),
                formats,
                redundancy,
                source: None,
                rewrite: Rewrite::new(FIRST_SEQUENCE),
                shown: None,
            });
        }
        let (waiting, connected) = (Vec::new(), false);
        Self {
            slots,
            waiting,
            connected,
        }
    }

    /// What plays where: the name of each medium and the topic in it.
    pub(crate) fn shown(&self) -> Vec<(String, Option<String>)> {
        let of = |slot: &Slot| {
            let topic = slot.source.as_ref().map(|source| source.base.clone());
            (slot.mid.to_string(), topic)
        };
        self.slots.iter().map(of).collect()
    }

    /// How high the peer shows its videos; `false`, and nothing is changed, if one of them is none.
    pub(crate) fn show(&mut self, shown: &[Shown], wishes: &mut Wishes<'_, '_>) -> bool {
        let video = |slot: &Slot| slot.class == Class::Video;
        let at = |one: &Shown| {
            let named = |slot: &Slot| video(slot) && *slot.mid == *one.mid;
            self.slots.iter().position(named)
        };
        let Some(places) = shown.iter().map(at).collect::<Option<Vec<_>>>() else {
            return false;
        };
        for (place, one) in places.into_iter().zip(shown) {
            let slot = &mut self.slots[place];
            if slot.shown.replace(one.height) != Some(one.height)
                && let Some(source) = &mut slot.source
            {
                source.show(one.height, wishes);
            }
        }
        true
    }

    /// The peer can be sent to.
    pub(crate) fn connected(&mut self, wishes: &mut Wishes<'_, '_>) {
        self.connected = true;
        self.refresh(wishes);
    }

    /// The peer has nothing to go on from: all that is seen there needs a key frame.
    pub(crate) fn refresh(&mut self, wishes: &mut Wishes<'_, '_>) {
        let sources = self.slots.iter_mut();
        for source in sources.filter_map(|slot| slot.source.as_mut()) {
            source.ask(wishes);
        }
    }

    /// A stream of those that were subscribed to exists.
    pub(crate) fn announced(
        &mut self,
        (id, topic, media): (StreamId, Topic, MediaInfo),
        wishes: &mut Wishes<'_, '_>,
    ) {
        let known = |stream: &Stream| stream.id == id;
        let playing = self.slots.iter().filter_map(|slot| slot.source.as_ref());
        if self.waiting.iter().any(known) || playing.flat_map(|one| &one.streams).any(known) {
            return;
        }
        let layer = layer_of(&topic).map_or(0, |(_, layer)| layer);
        let stream = Stream {
            id,
            topic,
            media,
            layer,
            pt: None,
        };
        if let Some(stream) = self.place(stream, wishes)
            && self.waiting.len() < WAITING
        {
            self.waiting.push(stream);
        }
    }

    /// A stream has ended.
    pub(crate) fn retired(&mut self, id: StreamId, wishes: &mut Wishes<'_, '_>) {
        self.waiting.retain(|stream| stream.id != id);
        let mut freed = false;
        for slot in &mut self.slots {
            let Some(source) = &mut slot.source else {
                continue;
            };
            if source.lose(id) {
                slot.source = None;
                freed = true;
            } else if source.active.is_none() {
                source.ask(wishes);
            }
        }
        if freed {
            for stream in std::mem::take(&mut self.waiting) {
                let left = self.place(stream, wishes);
                self.waiting.extend(left);
            }
        }
    }

    /// The peer asks for a key frame.
    pub(crate) fn key_frame_wanted(&mut self, mid: Mid, wishes: &mut Wishes<'_, '_>) {
        let slot = self.slots.iter_mut().find(|slot| slot.mid == mid);
        if let Some(source) = slot.and_then(|slot| slot.source.as_mut()) {
            wishes.counts.key_requests.one();
            source.ask(wishes);
        }
    }

    /// What the peer's path carries, in bits per second.
    pub(crate) fn estimated(&mut self, bits_per_s: u64, wishes: &mut Wishes<'_, '_>) {
        let now = wishes.cx.now;
        let rates = |slot: &Slot| slot.source.as_ref().map_or(0, |one| one.ladder.rate(now));
        let total: u64 = self.slots.iter().map(rates).sum();
        for slot in self
            .slots
            .iter_mut()
            .filter(|slot| slot.class == Class::Video)
        {
            let led = |source: &&mut Source| source.layered && !source.hidden;
            let Some(source) = slot.source.as_mut().filter(led) else {
                continue;
            };
            let others = total - source.ladder.rate(now).min(total);
            source
                .ladder
                .available(bits_per_s.saturating_sub(others), now);
            source.climb(wishes);
        }
    }

    /// Whether anything has layers, between which the path decides.
    pub(crate) fn is_layered(&self) -> bool {
        let mut sources = self.slots.iter().filter_map(|slot| slot.source.as_ref());
        sources.any(|source| source.layered)
    }

    /// The rate that layered sources could use, in bits per second; `None` if there are none.
    pub(crate) fn desired(&self, now: Time) -> Option<u64> {
        let sources = self.slots.iter().filter_map(|slot| slot.source.as_ref());
        let layered = sources.filter(|source| source.layered && !source.hidden);
        layered
            .map(|source| source.ladder.desired(now))
            .reduce(|a, b| a + b)
    }

    /// Writes a burst of one stream; the last packet of it, if any is sent. The caller drains the
    /// library afterwards.
    pub(crate) fn write(
        &mut self,
        burst: &mut [Item],
        (rtc, at): (&mut Rtc, Instant),
        wishes: &mut Wishes<'_, '_>,
    ) -> Option<Written> {
        let stream = burst.first().filter(|_| self.connected)?.stream;
        let plays = |slot: &&mut Slot| {
            let source = slot.source.as_ref();
            source.is_some_and(|source| source.streams.iter().any(|one| one.id == stream))
        };
        let slot = self.slots.iter_mut().find(plays)?;
        let mut last = None;
        for item in burst {
            let Some((rtp, written)) = slot.packet(item, at, wishes) else {
                continue;
            };
            if let Some(sender) = rtc.direct_api().stream_tx(&slot.ssrc) {
                sender.write_rtp(rtp);
                last = Some(written);
            }
        }
        last
    }

    /// Finds a medium for a stream; gives it back if none is free.
    fn place(&mut self, mut stream: Stream, wishes: &mut Wishes<'_, '_>) -> Option<Stream> {
        let layered = layer_of(&stream.topic).map(|(base, _)| base.to_owned());
        let base = layered
            .clone()
            .unwrap_or_else(|| stream.topic.as_str().to_owned());
        let of_class = |slot: &&mut Slot| slot.class == stream.media.class;
        let same = |source: &Source| layered.is_some() && source.base == base;
        let mut slots = self.slots.iter_mut().filter(of_class);
        let another = slots.find(|slot| slot.source.as_ref().is_some_and(same));
        let slot = match another {
            Some(slot) => slot,
            None => {
                let mut free = self.slots.iter_mut().filter(of_class);
                let slot = free.find(|slot| slot.source.is_none());
                let Some(slot) = slot else {
                    return Some(stream);
                };
                let mut ladder = Ladder::new(wishes.cx.now);
                ladder.show(slot.shown.unwrap_or(u16::MAX));
                slot.source = Some(Source {
                    base,
                    layered: layered.is_some(),
                    streams: Vec::new(),
                    active: None,
                    ladder,
                    hidden: slot.shown == Some(0),
                    asked: Time::ZERO,
                });
                slot
            }
        };
        stream.pt = slot.format(&stream.media);
        if stream.pt.is_none() {
            wishes.counts.uncodable.one();
            tracing::debug!(topic = %stream.topic, encoding = stream.media.encoding,
                "a subscriber did not offer the encoding of a stream");
            if slot
                .source
                .as_ref()
                .is_some_and(|source| source.streams.is_empty())
            {
                slot.source = None;
            }
            return Some(stream);
        }
        if let Some(source) = &mut slot.source {
            source.ladder.came(stream.layer);
            source.streams.push(stream);
            if self.connected {
                source.ask(wishes);
            }
        }
        None
    }
}

/// What a peer that wants `filter` subscribes to: what is published right there, the media of a
/// publisher there, and the lowest layer of its videos. Higher ones are asked for one by one.
pub(crate) fn filters(filter: &Filter) -> Vec<Filter> {
    let below = |tail: &str| Filter::new(&format!("{filter}/{tail}")).ok();
    let tails = ["audio", "video", "video/0"].into_iter();
    let mut filters = vec![filter.clone()];
    if filter.as_str() == "#" || filter.as_str().ends_with("/#") {
        return filters;
    }
    filters.extend(tails.filter_map(below));
    filters
}
