use std::net::IpAddr;

use sangam_io::pool::Pool;

use super::*;

const B: LinkId = LinkId(1);
const C: LinkId = LinkId(2);
const D: LinkId = LinkId(5);
const ALL: u64 = 1 << 1 | 1 << 2 | 1 << 5;

/// A broker with two groups to give, and what became of them.
struct Stage {
    sets: Sets,
    counters: Arc<Counters>,
    now: Time,
    packet: Packet,
    pool: Pool,
}

impl Stage {
    fn new() -> Self {
        let counters: Arc<Counters> = Arc::default();
        let sources = Sources {
            free: [[239, 192, 0, 1], [239, 192, 0, 2]]
                .map(IpAddr::from)
                .into(),
            source: [10, 0, 0, 1].into(),
        };
        let broker = (BrokerId(4), Incarnation(1));
        let sets = Sets::new(broker, (vec![Some(sources)], 4_620), 8, counters.clone());
        let pool = Pool::new(8, 1);
        Self {
            sets,
            counters,
            now: Time::from_millis(1_000_000),
            packet: pool.copy(&[0; 20]).expect("a buffer").freeze(),
            pool,
        }
    }

    /// So many events for these.
    fn send(&mut self, members: u64, events: usize) -> Option<Turn> {
        let mut last = None;
        for _ in 0..events {
            last = self.sets.turn((0, members), 1, self.now);
            if let Some(turn) = &last {
                self.sets.sent(turn, &self.packet, self.now);
            }
        }
        last
    }

    /// What links were told since: the names of groups to join, or to leave.
    fn told(&mut self) -> Vec<(LinkId, StreamId, bool)> {
        let messages = std::iter::from_fn(|| self.sets.message());
        let read = |(link, message)| match message {
            Message::Group { stream, group } => (link, stream, group.is_some()),
            other => panic!("{other:?}"),
        };
        messages.map(read).collect()
    }

    /// A group of all, which all hear; its name.
    fn heard(&mut self) -> StreamId {
        let name = self.open(ALL);
        for link in [B, C, D] {
            self.says(link, name, true);
        }
        name
    }

    /// These have a group; its name.
    fn open(&mut self, members: u64) -> StreamId {
        self.send(members, WORTH);
        let told = self.told();
        let links: Vec<LinkId> = told.iter().map(|(link, ..)| *link).collect();
        assert_eq!(links, super::links(members).collect::<Vec<_>>());
        assert!(told.iter().all(|(.., joins)| *joins));
        told[0].1
    }

    /// A link says that it hears; what comes for it again.
    fn says(&mut self, link: LinkId, name: StreamId, hears: bool) -> Vec<LinkId> {
        let mut again = Vec::new();
        self.sets
            .hearing((link, name, hears), self.now, |link, _| again.push(link));
        again
    }

    fn beacons(&mut self) -> usize {
        let mut count = 0;
        self.sets.tick(self.now, |bytes, socket, _| {
            assert!(matches!(Frame::decode(bytes), Ok(Frame::Beacon { .. })));
            assert_eq!(socket, 0);
            count += 1;
        });
        count
    }

    fn listeners(&self) -> u64 {
        self.counters.link_groups.listeners.get()
    }
}

#[test]
fn a_group_is_used_once_two_hear_it_and_only_for_these() {
    let mut stage = Stage::new();
    let name = stage.open(ALL);
    assert_eq!(stage.send(ALL, 1), None);
    stage.says(B, name, true);
    assert_eq!(stage.send(ALL, 1), None);
    stage.says(D, name, true);
    let turn = stage.send(ALL, 1).expect("two hear it");
    assert_eq!(turn.hear, 1 << B.0 | 1 << D.0);
    // Another set has another group.
    assert_eq!(stage.send(1 << B.0 | 1 << D.0, 1), None);
    assert_eq!(stage.listeners(), 2);
}

#[test]
fn few_events_are_not_worth_a_group() {
    let mut stage = Stage::new();
    for _ in 0..100 {
        stage.send(ALL, WORTH - 1);
        stage.now += WORTH_SPAN + Duration::from_millis(1);
    }
    assert_eq!(stage.told(), []);
    assert_eq!(stage.sets.deadline(), None);
}

#[test]
fn who_hears_no_more_gets_again_what_went_there_lately() {
    let mut stage = Stage::new();
    let name = stage.heard();
    stage.send(ALL, 3);
    stage.now += AGAIN + Duration::from_millis(1);
    stage.send(ALL, 2);
    assert_eq!(stage.says(C, name, false), [C, C]);
    assert_eq!(
        stage.send(ALL, 1).map(|turn| turn.hear),
        Some(1 << B.0 | 1 << D.0)
    );
    // What left while it did not hear, it has had by itself.
    assert_eq!(stage.says(C, name, false), []);
    assert_eq!(stage.says(B, name, false), [B, B, B]);
    assert_eq!(stage.send(ALL, 1), None);
    assert_eq!(stage.counters.link_groups.falls.get(), 2);
    assert_eq!(stage.listeners(), 1);
    // It is not believed at once.
    stage.says(B, name, true);
    assert_eq!(stage.listeners(), 1);
    stage.now += Duration::from_secs(5);
    stage.beacons();
    assert_eq!(stage.listeners(), 2);
}

#[test]
fn what_is_kept_to_come_again_leaves_the_pool_its_buffers() {
    let mut stage = Stage::new();
    let name = stage.heard();
    stage.send(ALL, 20);
    assert_eq!(stage.says(B, name, false).len(), 8);
    assert_eq!(stage.counters.link_groups.forgotten.get(), 12);
    let large = stage.pool.copy(&[0; EVENT_LEN_SMALL + 1]);
    stage.packet = large.expect("a buffer").freeze();
    stage.send(ALL, 20);
    stage.packet = stage.pool.copy(&[0; 20]).expect("a buffer").freeze();
    assert_eq!(stage.pool.free().1, 1);
}

#[test]
fn who_loses_much_is_not_believed_for_a_while() {
    let mut stage = Stage::new();
    stage.heard();
    stage.send(ALL, 2);
    let mut again = Vec::new();
    for _ in 0..3 {
        let sampled = (C, JUDGED / 2, JUDGED / LOSS);
        let said = |link, _| again.push(link);
        stage.sets.sampled(sampled, stage.now, said);
    }
    assert_eq!(again, [C, C]);
    assert_eq!(stage.listeners(), 2);
    stage.beacons();
    assert_eq!(stage.listeners(), 2);
    // It has said all the time that it hears.
    stage.now += Duration::from_secs(5);
    stage.send(ALL, 1);
    stage.beacons();
    assert_eq!(stage.listeners(), 3);
}

#[test]
fn a_little_loss_changes_nothing() {
    let mut stage = Stage::new();
    stage.heard();
    for _ in 0..100 {
        let sampled = (C, JUDGED, JUDGED / LOSS - 1);
        stage
            .sets
            .sampled(sampled, stage.now, |link, _| panic!("{link:?}"));
    }
    assert_eq!(stage.listeners(), 3);
}

#[test]
fn a_group_that_the_kernel_refuses_is_left_alone() {
    let mut stage = Stage::new();
    let name = stage.heard();
    stage.send(ALL, 1);
    let mut again = Vec::new();
    let said = |link, _| again.push(link);
    stage.sets.failed(name, stage.now, said);
    assert_eq!(again, [B, C, D]);
    assert_eq!(stage.send(ALL, 1), None);
    assert_eq!(stage.listeners(), 0);
}

#[test]
fn groups_are_bounded_and_the_useless_make_room() {
    let mut stage = Stage::new();
    let first = stage.open(1 << 1 | 1 << 2);
    stage.open(1 << 1 | 1 << 3);
    stage.send(1 << 1 | 1 << 4, WORTH);
    assert_eq!(stage.told(), []);
    assert_eq!(stage.counters.link_groups.refusals.get(), 1);
    // Idle ones go, and their groups come back.
    stage.now += IDLE;
    stage.send(1 << 1 | 1 << 3, 1);
    stage.beacons();
    assert_eq!(stage.told(), [(B, first, false), (C, first, false)]);
    stage.open(1 << 1 | 1 << 4);
    assert_eq!(stage.counters.link_groups.groups.get(), 2);
}

#[test]
fn a_link_that_goes_takes_its_sets_along() {
    let mut stage = Stage::new();
    let name = stage.heard();
    stage.sets.gone(C);
    assert_eq!(stage.told(), [(B, name, false), (D, name, false)]);
    assert_eq!(stage.listeners(), 0);
    assert_eq!(stage.says(B, name, true), []);
    assert_eq!(stage.send(ALL, 1), None);
}

#[test]
fn a_link_that_moves_gets_again_what_the_group_had() {
    let mut stage = Stage::new();
    let name = stage.heard();
    stage.send(ALL, 2);
    let mut again = Vec::new();
    stage.sets.moved(D, |link, _| again.push(link));
    assert_eq!(again, [D, D]);
    assert_eq!(stage.told(), [(B, name, false), (C, name, false)]);
}

#[test]
fn beacons_are_quick_at_first_and_while_somebody_hears_them() {
    let mut stage = Stage::new();
    let name = stage.open(ALL);
    let count = |stage: &mut Stage, millis: u64| {
        let mut count = 0;
        for _ in 0..millis / 10 {
            stage.now += Duration::from_millis(10);
            count += stage.beacons();
            stage.sets.turn((0, ALL), 1, stage.now);
        }
        count
    };
    assert!((38..=40).contains(&count(&mut stage, 2_000)));
    assert!((2..=4).contains(&count(&mut stage, 3_000)));
    stage.says(B, name, true);
    assert!((18..=20).contains(&count(&mut stage, 1_000)));
}
