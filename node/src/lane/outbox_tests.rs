use sangam_io::pool::Pool;
use sangam_model::{BrokerId, Incarnation};
use sangam_wire::{Event, Extensions, Flags};

use super::*;

const LINK: LinkId = LinkId(0);
const PAYLOAD: usize = 1_000;

/// A paced link and a pool.
struct Stage {
    pool: Pool,
    boxes: Outboxes,
    habits: Shedder,
    now: Time,
}

impl Stage {
    /// A link whose rate is 64 KB for each `rtt`.
    fn new(rtt_ms: u64) -> Self {
        let now = Time::from_millis(1_000);
        let mut boxes = Outboxes::default();
        boxes.open(LINK, Pace::Begins(Some(Duration::from_millis(rtt_ms))));
        let sample = Sample {
            rtt: Duration::from_millis(rtt_ms),
            ..Sample::default()
        };
        boxes.sampled(LINK, now, sample);
        Self {
            pool: Pool::new(4_096, 16),
            boxes,
            habits: Shedder::new(),
            now,
        }
    }

    fn push(&mut self, class: Class, flags: Flags, layer: u8) {
        let packet = self.packet(class, flags, layer);
        self.boxes.push(LINK, packet, self.habits);
    }

    /// A key frame of long ago, or of now, comes once more; whether it was taken.
    fn again(&mut self, flags: Flags) -> bool {
        let frame = Flags::FRAME_START.with(Flags::FRAME_END).with(flags);
        let habits = self.habits;
        let packet = self.packet(Class::Video, frame, 0);
        self.habits = habits;
        self.boxes.push_again(LINK, packet)
    }

    fn packet(&mut self, class: Class, flags: Flags, layer: u8) -> Packet {
        let stream = StreamId::new(BrokerId(1), Incarnation(1), class as u32 + 1);
        let header = Header {
            class,
            flags,
            stream,
            sequence: 0,
            hop_limit: 9,
            layer,
        };
        if class == Class::Video {
            self.habits.admit(&header, Duration::ZERO, false);
        }
        let event = Event {
            header,
            extensions: Extensions::default(),
            payload: &[0; PAYLOAD],
        };
        let mut bytes = vec![0; event.encoded_len()];
        event.write(&mut bytes).expect("a plain event");
        let packet = self.pool.copy(&bytes).expect("the pool has room");
        packet.freeze()
    }

    /// A frame of one packet, and whether it was taken.
    fn frame(&mut self, flags: Flags, layer: u8) -> bool {
        let before = self.waiting(Kind::Video);
        self.push(
            Class::Video,
            Flags::FRAME_START.with(Flags::FRAME_END).with(flags),
            layer,
        );
        self.waiting(Kind::Video) > before
    }

    fn waiting(&mut self, kind: Kind) -> usize {
        self.outbox().queues[kind as usize].len()
    }

    fn wait(&mut self) -> Duration {
        self.outbox().wait(Kind::Video)
    }

    fn outbox(&mut self) -> &mut Outbox {
        self.boxes.outbox(LINK)
    }

    fn leaves(&mut self, kind: Kind) -> usize {
        let now = self.now;
        let outbox = self.outbox();
        let due = outbox.due(kind, now);
        outbox.sent(kind, due, due);
        due
    }
}

#[test]
fn below_the_rate_everything_leaves_at_once() {
    let mut stage = Stage::new(1);
    for _ in 0..40 {
        stage.push(Class::Audio, Flags::NONE, 0);
        stage.frame(Flags::KEY, 0);
    }
    assert_eq!(
        (stage.leaves(Kind::Urgent), stage.leaves(Kind::Video)),
        (40, 40)
    );
}

#[test]
fn video_waits_for_the_rate_and_audio_does_not() {
    // 5 Mb/s.
    let mut stage = Stage::new(100);
    for _ in 0..60 {
        stage.frame(Flags::KEY, 0);
    }
    let first = stage.leaves(Kind::Video);
    assert!(
        (2..=5).contains(&first),
        "{first} packets in the first burst"
    );
    assert_eq!(stage.leaves(Kind::Video), 0);
    stage.push(Class::Audio, Flags::NONE, 0);
    assert_eq!(stage.leaves(Kind::Urgent), 1);
    // 10 ms later as much as the rate gives in a burst.
    stage.now += Duration::from_millis(10);
    let later = stage.leaves(Kind::Video);
    assert!((1..=4).contains(&later), "{later} packets after a pause");
}

#[test]
fn video_that_would_wait_too_long_goes_by_frames_until_a_key_frame_finds_room() {
    let mut stage = Stage::new(100);
    assert!(stage.frame(Flags::KEY, 0));
    let mut taken = 0;
    while stage.frame(Flags::NONE, 0) {
        taken += 1;
    }
    // 150 ms at 5 Mb/s are 96 KB.
    assert!((80..=110).contains(&taken), "{taken}");
    // Though there is room again, nothing but a key frame is of use.
    stage.outbox().sent(Kind::Video, 50, 50);
    assert!(!stage.frame(Flags::NONE, 0));
    assert!(stage.frame(Flags::KEY, 0));
    assert!(stage.frame(Flags::NONE, 0));
    let refused = &stage.outbox().refused;
    assert_eq!(refused[..], [DropReason::VideoLate, DropReason::VideoShed]);
}

#[test]
fn higher_layers_go_first() {
    let mut stage = Stage::new(100);
    stage.frame(Flags::KEY, 0);
    let mut first_gone = [None; 3];
    for round in 0..120 {
        for (layer, gone) in first_gone.iter_mut().enumerate() {
            if !stage.frame(Flags::KEY, layer as u8) {
                gone.get_or_insert(round);
            }
        }
    }
    let [Some(low), Some(middle), Some(high)] = first_gone else {
        panic!("{first_gone:?}");
    };
    assert!(high < middle && middle < low, "{first_gone:?}");
}

#[test]
fn a_path_that_became_slow_loses_the_video_that_waits_and_keeps_the_audio() {
    let mut stage = Stage::new(10);
    for _ in 0..300 {
        stage.frame(Flags::KEY, 0);
        stage.push(Class::Audio, Flags::NONE, 0);
    }
    // No answer comes for two seconds, and then one that tells of them.
    stage.now += Duration::from_secs(2);
    let now = stage.now;
    stage.boxes.overdue(LINK, now, Duration::from_secs(2));
    assert_eq!(stage.waiting(Kind::Video), 0);
    assert_eq!(stage.waiting(Kind::Urgent), 300);
    assert_eq!(stage.boxes.waiting, 300);
    assert_eq!(stage.outbox().refused.len(), 300);
    assert!(!stage.frame(Flags::NONE, 0), "the stream is cut");
}

#[test]
fn an_unpaced_link_holds_nothing_back() {
    let mut stage = Stage::new(100);
    stage.boxes.open(LINK, Pace::Free);
    for _ in 0..1_000 {
        stage.push(Class::Audio, Flags::NONE, 0);
    }
    assert_eq!(stage.leaves(Kind::Urgent), 1_000);
    assert_eq!(stage.boxes.state(LINK).0.time, Duration::ZERO);
}

#[test]
fn what_has_left_by_another_way_goes_and_the_rest_keeps_its_order() {
    let mut stage = Stage::new(10);
    for _ in 0..6 {
        stage.push(Class::Data, Flags::default(), 0);
    }
    let outbox = stage.boxes.outbox(LINK);
    let places: Vec<_> = outbox.first(Kind::Data, 6).map(|p| p.as_ptr()).collect();
    let has_left = |packet: &Packet| [0, 2, 5].iter().any(|n| places[*n] == packet.as_ptr());
    let bytes = outbox.bytes[Kind::Data as usize];
    // The last one is not due, whatever became of it elsewhere.
    assert_eq!(outbox.let_go(Kind::Data, 5, has_left), 2);
    let rest: Vec<_> = outbox.first(Kind::Data, 6).map(|p| p.as_ptr()).collect();
    assert_eq!(rest, [1, 3, 4, 5].map(|n| places[n]));
    assert_eq!(outbox.bytes[Kind::Data as usize], bytes / 6 * 4);
}

#[test]
fn what_the_kernel_refuses_stays_with_all_behind_it() {
    let mut stage = Stage::new(10);
    for _ in 0..4 {
        stage.push(Class::Data, Flags::default(), 0);
    }
    let now = stage.now;
    let outbox = stage.outbox();
    let due = outbox.due(Kind::Data, now);
    assert_eq!(due, 4);
    let mut offered = 0;
    let sent = outbox.while_taken((Kind::Data, due), |_| {
        offered += 1;
        offered != 3
    });
    assert_eq!((offered, sent), (3, 2));
    outbox.sent(Kind::Data, sent, due);
    assert_eq!(stage.waiting(Kind::Data), 2);
}

#[test]
fn what_is_sent_again_neither_cuts_a_stream_nor_ends_a_cut() {
    let mut stage = Stage::new(100);
    assert!(stage.frame(Flags::KEY, 0));
    while stage.wait() <= VIDEO_AGE_MAX {
        assert!(stage.again(Flags::NONE));
    }
    // There is no room for more of it, and with room again the stream goes on.
    assert!(!stage.again(Flags::NONE));
    assert!(stage.outbox().cut.is_empty());
    stage.outbox().sent(Kind::Video, 50, 50);
    assert!(stage.frame(Flags::NONE, 0));

    while stage.frame(Flags::NONE, 0) {}
    stage.outbox().sent(Kind::Video, 50, 50);
    // A key frame of before the cut is none to go on with.
    assert!(!stage.again(Flags::KEY));
    assert!(!stage.frame(Flags::NONE, 0));
    assert!(stage.frame(Flags::KEY, 0));
}

#[test]
fn what_was_sent_again_and_goes_with_the_rest_cuts_nothing() {
    let mut stage = Stage::new(10);
    assert!(stage.again(Flags::NONE));
    stage.outbox().purge();
    assert!(stage.outbox().cut.is_empty());
}

#[test]
fn a_stream_that_ends_while_it_is_cut_leaves_nothing() {
    let mut stage = Stage::new(100);
    stage.frame(Flags::KEY, 0);
    while stage.frame(Flags::NONE, 0) {}
    stage.boxes.forget(|_, link| link == LINK);
    assert!(!stage.outbox().cut.is_empty(), "it goes there as before");
    stage.boxes.forget(|_, _| false);
    assert!(stage.outbox().cut.is_empty());
}

#[test]
fn what_is_urgent_and_would_be_late_is_counted_by_its_class() {
    let mut stage = Stage::new(100);
    let classes = [Class::Audio, Class::Rtcp, Class::Feedback];
    while stage.outbox().wait(Kind::Urgent) <= AUDIO_AGE_MAX {
        stage.push(Class::Audio, Flags::NONE, 0);
    }
    for class in classes {
        stage.push(class, Flags::NONE, 0);
    }
    let late = [
        DropReason::AudioLate,
        DropReason::RtcpLate,
        DropReason::FeedbackLate,
    ];
    assert_eq!(stage.outbox().refused[..], late);
}
