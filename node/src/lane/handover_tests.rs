use sangam_model::limits::HOP_LIMIT;

use super::super::fixture::*;
use super::super::ingest::Source;
use super::*;
use sangam_wire::Flags;

const PORT: u16 = 9;
const FRAME: Flags = Flags::FRAME_START.with(Flags::FRAME_END);
const KEY: Flags = FRAME.with(Flags::KEY);

/// A stream that two shards want.
struct Two {
    stage: Stage,
    sequence: u16,
}

impl Two {
    fn new() -> Self {
        let mut stage = Stage::new(2);
        stage.routes([(STREAM, local(0, client(PORT), (0b11, &[])))]);
        Self { stage, sequence: 0 }
    }

    fn send(&mut self, class: Class, flags: Flags) {
        self.sequence += 1;
        let mut bytes = event((class, flags), STREAM, self.sequence, &[0; 50]);
        bytes[Header::HOP_LIMIT_AT] = HOP_LIMIT;
        self.stage.lane.event(&bytes, Source::Client(client(PORT)));
        self.stage.lane.flush();
    }

    /// What this shard finds of so many.
    fn takes(&mut self, shard: usize, class: Class) -> usize {
        let ring = &mut self.stage.shards[shard][class as usize];
        std::iter::from_fn(|| ring.pop().ok()).count()
    }
}

#[test]
fn a_shard_whose_audio_ring_is_full_costs_no_other_shard_its_audio() {
    let mut two = Two::new();
    two.stage.fill(0, Class::Audio);
    for _ in 0..20 {
        two.send(Class::Audio, Flags::NONE);
    }
    assert_eq!(two.takes(1, Class::Audio), 20);
    assert_eq!(two.stage.dropped(DropReason::RingFullAudio), 20);
}

#[test]
fn a_shard_whose_video_ring_is_full_costs_no_other_shard_its_video() {
    let mut two = Two::new();
    two.send(Class::Video, KEY);
    two.stage.fill(0, Class::Video);
    two.send(Class::Video, FRAME);
    // There is room again, but nothing for this shard to go on with.
    two.takes(0, Class::Video);
    two.send(Class::Video, FRAME);
    two.send(Class::Video, FRAME);
    assert_eq!(two.takes(0, Class::Video), 0);
    assert_eq!(two.takes(1, Class::Video), 4);
    two.send(Class::Video, KEY);
    two.send(Class::Video, FRAME);
    assert_eq!(two.takes(0, Class::Video), 2);
    assert_eq!(two.takes(1, Class::Video), 2);
    let counted = [DropReason::RingFullVideo, DropReason::VideoShed];
    assert_eq!(counted.map(|reason| two.stage.dropped(reason)), [1, 2]);
}

#[test]
fn a_shard_takes_up_its_video_whatever_another_waits_for() {
    let mut two = Two::new();
    two.send(Class::Video, KEY);
    two.stage.fill(0, Class::Video);
    two.stage.fill(1, Class::Video);
    two.send(Class::Video, FRAME);
    two.takes(1, Class::Video);
    two.send(Class::Video, KEY);
    two.send(Class::Video, FRAME);
    assert_eq!(two.takes(1, Class::Video), 2);
    two.takes(0, Class::Video);
    two.send(Class::Video, FRAME);
    assert_eq!(
        (two.takes(0, Class::Video), two.takes(1, Class::Video)),
        (0, 1)
    );
}

#[test]
fn a_cut_of_long_ago_counts_no_more() {
    let mut two = Two::new();
    two.send(Class::Video, KEY);
    two.stage.fill(0, Class::Video);
    two.send(Class::Video, FRAME);
    two.takes(0, Class::Video);
    two.stage.later(SHED_FOR);
    two.send(Class::Video, FRAME);
    // Another stream's trouble makes the lane look at every frame again.
    two.stage.lane.shed_until = two.stage.lane.now + SHED_FOR;
    two.send(Class::Video, FRAME);
    assert_eq!(two.takes(0, Class::Video), 2);
}
