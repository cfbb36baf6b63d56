//! How links come up, end and come up again.

mod pair;

use std::time::Duration;

use pair::{BROKER_ROLE, Pair, Path, Seen, accepted, config};
use sangam_link::{DialInput, DialerConfig, Session};
use sangam_model::{BrokerId, Incarnation, Time};
use sangam_wire::{Frame, Refusal, Refuse, Role};

const SECOND: Duration = Duration::from_secs(1);

fn refusal(reason: Refusal, retry_after_ms: u32) -> Option<Frame<'static>> {
    Some(Frame::Refuse(Refuse {
        nonce: 0,
        reason,
        retry_after_ms,
        speaks: 0,
    }))
}

#[test]
fn a_join_takes_two_round_trips_and_four_datagrams() {
    let mut pair = Pair::new(config(1), Path::delay(10));
    assert_eq!(pair.run_until_up(SECOND), Duration::from_millis(40));
    assert_eq!(pair.hellos.len(), 2);
    assert_eq!(pair.hellos[0].cookie, None);
    assert!(pair.hellos[1].cookie.is_some());
    assert_eq!(pair.hellos[0].nonce, pair.hellos[1].nonce);
    let rtt = pair.dialer.session().unwrap().rtt();
    assert_eq!(rtt, Some(Duration::from_millis(20)));
}

#[test]
fn a_join_succeeds_under_heavy_loss() {
    for seed in 1..=200 {
        let path = Path {
            lost: 300,
            doubled: 50,
            ..Path::delay(20)
        };
        let mut pair = Pair::new(config(seed), path);
        pair.run_until_up(Duration::from_secs(60));
        pair.run(SECOND);
        let number = |session: &Session| session.number();
        let ours = pair.dialer.session().map(number);
        assert_eq!(
            ours,
            pair.broker.session.as_ref().map(number),
            "seed {seed}"
        );
    }
}

#[test]
fn a_dead_broker_is_noticed_within_two_seconds_and_dialled_again() {
    let mut pair = Pair::joined(config(2), Path::delay(5));
    let first = pair.hellos[0].nonce;
    pair.run(Duration::from_secs(10));
    let heard = pair.now;
    pair.cut = true;
    pair.run(4 * SECOND);
    let (at, seen) = pair.seen.pop().unwrap();
    assert_eq!(seen, Seen::Down(Refusal::Silent));
    // The last pong came at most half a second before the cut.
    let patience = at - heard;
    assert!(patience > SECOND && patience <= 2 * SECOND, "{patience:?}");

    pair.cut = false;
    pair.run_until_up(10 * SECOND);
    assert_eq!(pair.seen.pop().unwrap().1, Seen::Up(2));
    assert_ne!(pair.hellos.last().unwrap().nonce, first);
}

#[test]
fn a_silent_client_is_dropped_by_its_broker_after_three_intervals() {
    let mut pair = Pair::joined(config(3), Path::delay(5));
    pair.run(Duration::from_secs(10));
    let last = pair.now;
    pair.cut = true;
    pair.run(4 * SECOND);
    let (at, reason) = pair.broker.down[0];
    assert_eq!(reason, Refusal::Silent);
    assert!(
        at - last > 2 * SECOND && at - last <= 3 * SECOND,
        "{:?}",
        at - last
    );
}

#[test]
fn media_packets_prove_life_without_pongs() {
    let mut pair = Pair::joined(config(5), Path::delay(5));
    pair.cut = true;
    for _ in 0..200 {
        pair.run(Duration::from_millis(50));
        pair.dialer.heard(pair.now);
    }
    assert!(pair.dialer.session().is_some());
}

#[test]
fn a_link_outlives_a_bad_path() {
    // Each way loses five of a hundred datagrams for an hour.
    for seed in 1..=10 {
        let path = Path {
            lost: 50,
            ..Path::delay(40)
        };
        let mut pair = Pair::joined(config(seed), path);
        pair.run(Duration::from_secs(3_600));
        assert_eq!(pair.broker.down, [], "seed {seed}");
    }
}

#[test]
fn an_idle_link_costs_two_datagrams_for_each_half_to_three_quarters_of_a_second() {
    for seed in 1..=20 {
        let mut pair = Pair::joined(config(seed), Path::delay(5));
        let before = pair.sent;
        pair.run(Duration::from_secs(60));
        let sent = pair.sent - before;
        assert!((154..=242).contains(&sent), "{sent}");
    }
}

#[test]
fn pauses_grow_and_differ_between_dialers() {
    let mut pauses = Vec::new();
    for seed in [7, 8] {
        let mut pair = Pair::new(config(seed), Path::default());
        pair.cut = true;
        let mut sent: Vec<Time> = Vec::new();
        while sent.len() < 12 {
            pair.run(Duration::from_millis(1));
            sent.resize(pair.hellos.len(), pair.now);
        }
        pauses.push(
            sent.windows(2)
                .map(|two| two[1] - two[0])
                .collect::<Vec<_>>(),
        );
    }
    assert_ne!(pauses[0], pauses[1]);
    for pauses in pauses {
        assert!(pauses[0] >= Duration::from_millis(100), "{pauses:?}");
        assert!(pauses[0] <= Duration::from_millis(151), "{pauses:?}");
        let last = pauses.last().unwrap();
        assert!(*last >= 5 * SECOND && *last <= 15 * SECOND / 2 + Duration::from_millis(1));
    }
}

#[test]
fn a_client_on_another_address_needs_another_cookie() {
    let mut pair = Pair::new(config(9), Path::delay(10));
    pair.run(Duration::from_millis(15));
    // The first hello has been answered; the second will come from elsewhere.
    pair.broker.source = "192.0.2.99:5000".parse().unwrap();
    pair.run(Duration::from_millis(50));
    assert!(pair.broker.session.is_none());
    pair.run_until_up(SECOND);
    assert!(pair.hellos.len() >= 3);
}

#[test]
fn frames_of_an_earlier_session_are_ignored() {
    let mut pair = Pair::joined(config(10), Path::delay(5));
    pair.inject(&Frame::Bye {
        session: 77,
        reason: Refusal::Leaving,
    });
    pair.inject(&Frame::Ping {
        session: 77,
        sent_us: 0,
        traffic: None,
    });
    let session = pair.dialer.session().unwrap();
    assert_eq!(session.counters().foreign, 2);
}

#[test]
fn answers_to_an_earlier_hello_are_ignored() {
    let mut pair = Pair::new(config(11), Path::default());
    pair.cut = true;
    pair.run(Duration::from_millis(1));
    let nonce = pair.hellos[0].nonce.wrapping_add(1);
    pair.inject(&Frame::Retry {
        nonce,
        cookie: [0; 16],
    });
    pair.inject(&Frame::Refuse(Refuse {
        nonce,
        reason: Refusal::Full,
        retry_after_ms: 0,
        speaks: 0,
    }));
    assert_eq!(pair.hellos.len(), 1);
    assert_eq!(pair.seen, []);
}

#[test]
fn a_flood_of_retries_draws_one_hello() {
    let mut pair = Pair::new(config(12), Path::default());
    pair.cut = true;
    pair.run(Duration::from_millis(1));
    let nonce = pair.hellos[0].nonce;
    for i in 0..100 {
        pair.inject(&Frame::Retry {
            nonce,
            cookie: [i; 16],
        });
    }
    assert_eq!(pair.hellos.len(), 2);
}

#[test]
fn a_goodbye_ends_both_ends_at_once() {
    let mut pair = Pair::joined(config(13), Path::delay(5));
    pair.send(accepted(1));
    pair.dialer.handle(pair.now, DialInput::Close);
    pair.run(SECOND);
    assert_eq!(pair.broker.messages, [accepted(1)]);
    assert_eq!(pair.broker.down[0].1, Refusal::Goodbye);
    assert_eq!(pair.seen.last().unwrap().1, Seen::Down(Refusal::Goodbye));
    assert_eq!(pair.dialer.deadline(), None);

    pair.dialer.handle(pair.now, DialInput::Start);
    pair.run(SECOND);
    assert_eq!(pair.seen.last().unwrap().1, Seen::Up(2));
}

#[test]
fn a_refused_client_comes_back_when_it_was_told() {
    let mut pair = Pair::new(config(14), Path::delay(5));
    pair.broker.refuse = refusal(Refusal::Full, 2_000);
    pair.run(SECOND);
    assert_eq!(pair.seen.last().unwrap().1, Seen::Refused(Refusal::Full));
    pair.broker.refuse = None;
    let waited = pair.run_until_up(4 * SECOND);
    assert!(waited > SECOND, "{waited:?}");
}

#[test]
fn a_client_stops_after_a_refusal_for_good_and_a_broker_tries_on_slowly() {
    for (role, last) in [(Role::Client, 2), (BROKER_ROLE, 4)] {
        let mut pair = Pair::new(DialerConfig { role, ..config(15) }, Path::delay(5));
        pair.broker.refuse = refusal(Refusal::Forbidden, 0);
        pair.run(Duration::from_secs(9));
        assert_eq!(pair.seen[0].1, Seen::Refused(Refusal::Forbidden));
        assert_eq!(pair.hellos.len(), last);
    }
}

#[test]
fn a_broker_that_meets_its_own_identity_says_so() {
    let role = Role::Broker(BrokerId(9), Incarnation(3));
    let mut pair = Pair::new(DialerConfig { role, ..config(16) }, Path::delay(5));
    pair.run(SECOND);
    assert_eq!(pair.seen[0].1, Seen::Refused(Refusal::Identity));
}

#[test]
fn messages_given_while_down_are_discarded_and_counted() {
    let mut pair = Pair::new(config(17), Path::delay(5));
    pair.send(accepted(1));
    pair.run(SECOND);
    assert_eq!(pair.dialer.discarded(), 1);
    assert_eq!(pair.broker.messages, []);
}

#[test]
fn a_broker_that_drops_its_clients_at_once_is_not_hammered() {
    let mut pair = Pair::new(config(18), Path::delay(1));
    for _ in 0..60_000 {
        pair.run(Duration::from_millis(1));
        if let Some(number) = pair.dialer.session().map(Session::number) {
            pair.inject(&Frame::Bye {
                session: number,
                reason: Refusal::Overflow,
            });
        }
    }
    assert!(
        pair.hellos.len() < 40,
        "{} hellos in a minute",
        pair.hellos.len()
    );
}

#[test]
fn over_a_byte_stream_no_cookie_is_needed_and_a_loss_is_told_at_once() {
    let mut pair = Pair::joined(
        DialerConfig {
            reliable: true,
            ..config(19)
        },
        Path::delay(5),
    );
    assert_eq!(pair.hellos.len(), 1);
    pair.dialer.handle(pair.now, DialInput::TransportLost);
    pair.run(Duration::from_millis(500));
    let seen: Vec<_> = pair.seen.iter().map(|(_, seen)| seen).collect();
    let lost = Seen::Down(Refusal::Silent);
    assert_eq!(
        seen,
        [
            &Seen::Connect,
            &Seen::Up(1),
            &lost,
            &Seen::Connect,
            &Seen::Up(2)
        ]
    );
}

#[test]
fn a_stream_that_cannot_be_opened_is_tried_again_with_pauses() {
    let mut pair = Pair::new(
        DialerConfig {
            reliable: true,
            ..config(20)
        },
        Path::delay(5),
    );
    pair.cut = true;
    for _ in 0..3_000 {
        pair.run(Duration::from_millis(10));
        pair.dialer.handle(pair.now, DialInput::TransportLost);
    }
    let connects = pair
        .seen
        .iter()
        .filter(|(_, seen)| *seen == Seen::Connect)
        .count();
    assert!((6..=12).contains(&connects), "{connects}");
}
