use super::*;
use sangam_model::Class;
use sangam_wire::Flags;

const A: StreamId = StreamId::from_bits(1);

fn header(stream: u64, layer: u8) -> Header {
    Header {
        class: Class::Feedback,
        flags: Flags::NONE,
        stream: StreamId::from_bits(stream),
        sequence: 0,
        hop_limit: 1,
        layer,
    }
}

const fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn drain(gate: &mut FeedbackGate) -> Vec<FeedbackOutput> {
    core::iter::from_fn(|| gate.poll()).collect()
}

#[test]
fn the_first_key_frame_request_passes_at_once_and_later_ones_together() {
    let mut gate = FeedbackGate::new();
    assert_eq!(
        gate.handle(ms(0), &header(1, 2), &Feedback::KeyFrame),
        Gate::Passed
    );
    for at in [1, 100, 299] {
        assert_eq!(
            gate.handle(ms(at), &header(1, 2), &Feedback::KeyFrame),
            Gate::Merged
        );
    }
    let want = FeedbackOutput {
        stream: A,
        layer: 2,
        feedback: Feedback::KeyFrame,
    };
    assert_eq!(drain(&mut gate), std::slice::from_ref(&want));
    assert_eq!(gate.deadline(), Some(ms(300)));
    gate.expire(ms(300));
    assert_eq!(drain(&mut gate), [want]);
    gate.expire(ms(600));
    assert_eq!(drain(&mut gate), []);
    assert_eq!(gate.deadline(), None);
}

#[test]
fn a_key_frame_that_came_by_answers_those_who_wait() {
    let mut gate = FeedbackGate::new();
    gate.handle(ms(0), &header(1, 0), &Feedback::KeyFrame);
    gate.handle(ms(10), &header(1, 0), &Feedback::KeyFrame);
    gate.key_frame_seen(A, 0);
    gate.expire(ms(300));
    assert_eq!(drain(&mut gate).len(), 1);
}

#[test]
fn layers_and_streams_ask_each_for_itself() {
    let mut gate = FeedbackGate::new();
    for (stream, layer) in [(1, 0), (1, 1), (2, 0)] {
        let passed = gate.handle(ms(0), &header(stream, layer), &Feedback::KeyFrame);
        assert_eq!(passed, Gate::Passed);
    }
}

#[test]
fn an_event_is_asked_for_once_in_its_interval() {
    let mut gate = FeedbackGate::new();
    let nack = |first, also| Feedback::Nack(Nack { first, also });
    assert_eq!(
        gate.handle(ms(0), &header(1, 0), &nack(65_535, 0b10)),
        Gate::Passed
    );
    assert_eq!(
        gate.handle(ms(49), &header(1, 0), &nack(65_535, 0b10)),
        Gate::Merged
    );
    // 65,535 and 1 were asked; 0 and 2 are left, counted from 0.
    assert_eq!(
        gate.handle(ms(49), &header(1, 0), &nack(65_535, 0b111)),
        Gate::Passed
    );
    assert_eq!(
        gate.handle(ms(50), &header(1, 0), &nack(65_535, 0)),
        Gate::Passed
    );
    let said: Vec<_> = drain(&mut gate).into_iter().map(|o| o.feedback).collect();
    assert_eq!(said, [nack(65_535, 0b10), nack(0, 0b10), nack(65_535, 0)]);
}

#[test]
fn the_whole_span_of_a_nack_passes_unchanged() {
    let mut gate = FeedbackGate::new();
    let nack = Feedback::Nack(Nack {
        first: 65_530,
        also: 0xffff,
    });
    gate.handle(ms(0), &header(1, 0), &nack);
    assert_eq!(drain(&mut gate)[0].feedback, nack);
}

#[test]
fn of_many_reports_the_worst_passes_once_a_second() {
    let mut gate = FeedbackGate::new();
    let report = |fraction_lost, highest, jitter_us, capacity_kbps| {
        Feedback::Report(Report {
            fraction_lost,
            highest,
            jitter_us,
            capacity_kbps,
        })
    };
    for (at, each) in [
        (0, report(1, 900, 50, 0)),
        (400, report(9, 700, 10, 800)),
        (999, report(3, 800, 20, 300)),
    ] {
        assert_eq!(gate.handle(ms(at), &header(1, 0), &each), Gate::Merged);
    }
    gate.expire(ms(999));
    assert_eq!(drain(&mut gate), []);
    gate.expire(ms(1_000));
    assert_eq!(drain(&mut gate)[0].feedback, report(9, 700, 50, 300));
    assert_eq!(gate.deadline(), None);
}

#[test]
fn the_table_is_bounded_and_empties_itself() {
    let mut gate = FeedbackGate::new();
    let report = Feedback::Report(Report::default());
    for stream in 0..FEEDBACK_STREAMS_MAX as u64 {
        gate.handle(ms(0), &header(stream, 0), &Feedback::KeyFrame);
        gate.handle(ms(0), &header(stream, 0), &report);
    }
    assert_eq!(
        gate.handle(ms(1), &header(9_999, 0), &Feedback::KeyFrame),
        Gate::Full
    );
    assert_eq!(gate.handle(ms(1), &header(9_999, 0), &report), Gate::Full);
    assert_eq!(
        gate.handle(ms(300), &header(9_999, 0), &Feedback::KeyFrame),
        Gate::Passed
    );
    assert_eq!(
        gate.handle(ms(1_000), &header(9_999, 0), &report),
        Gate::Merged
    );
}
