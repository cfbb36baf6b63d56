use sangam_model::BrokerId;
use sangam_model::Incarnation;

use super::super::fixture::*;
use super::*;

const PLAIN: (Class, Flags) = (Class::Data, Flags::NONE);
const MOMENT: Duration = Duration::from_millis(150);

#[test]
fn what_comes_before_its_announcement_waits_for_it() {
    let mut stage = Stage::new(1);
    let (link, _socket) = stage.neighbour();
    stage
        .lane
        .event(&event(PLAIN, STREAM, 1, &[0; 50]), Source::Link(link));
    stage.later(MOMENT);
    stage.routes([(STREAM, remote(0, link, 1))]);
    stage.lane.retry_early();
    stage.lane.flush();
    assert_eq!(stage.waiting(0, Class::Data), 1);
}

#[test]
fn what_waits_for_its_announcement_does_not_become_younger_when_the_map_changes() {
    let mut stage = Stage::new(1);
    let (link, _socket) = stage.neighbour();
    let others = StreamId::new(BrokerId(3), Incarnation(1), 1);
    stage
        .lane
        .event(&event(PLAIN, STREAM, 1, &[0; 50]), Source::Link(link));
    for index in 0..2 {
        stage.later(MOMENT);
        stage.routes([(others, remote(index, link, 1))]);
        stage.lane.retry_early();
    }
    assert_eq!(stage.dropped(DropReason::UnknownStream), 1);
    stage.routes([(STREAM, remote(0, link, 1))]);
    stage.lane.retry_early();
    stage.lane.flush();
    assert_eq!(stage.waiting(0, Class::Data), 0);
}
