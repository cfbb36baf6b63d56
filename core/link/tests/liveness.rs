//! Broker links: heartbeats, suspicion, death, and what a broker's own lateness does not do.

mod pair;

use std::collections::VecDeque;
use std::time::Duration;

use pair::{BROKER_ROLE, Pair, Path, Seen, config};
use sangam_link::{Backoff, DialerConfig, Input, Output, Session, SessionConfig, Timing};
use sangam_model::{Random, Time};
use sangam_wire::{Capabilities, Frame, Refusal, Traffic};

const SECOND: Duration = Duration::from_secs(1);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Two brokers of which one may not be quiet; `quiet.rs` has those that may.
fn brokers(seed: u64, path: Path) -> Pair {
    let config = DialerConfig {
        role: BROKER_ROLE,
        capabilities: Capabilities::FRAGMENTS.with(Capabilities::PROBES),
        backoff: Backoff::BROKER,
        ..config(seed)
    };
    let mut pair = Pair::joined(config, path);
    pair.seen.clear();
    pair
}

/// One that has heard its peer.
fn session(timing: Timing, now: Time) -> Session {
    let config = SessionConfig {
        number: 1,
        timing,
        datagram_max: 1_472,
        reliable: false,
    };
    let mut session = Session::new(config, now);
    session.heard(now);
    session
}

/// Everything the session wants now.
fn outputs(session: &mut Session, now: Time) -> Vec<Output> {
    core::iter::from_fn(|| session.poll(now)).collect()
}

fn is_down(outputs: &[Output]) -> bool {
    outputs.contains(&Output::Down(Refusal::Silent))
}

#[test]
fn an_idle_broker_link_pings_every_fifty_milliseconds_each_way() {
    let mut pair = brokers(1, Path::delay(5));
    let before = pair.sent;
    pair.run(60 * SECOND);
    // 20 pings and 20 pongs a second, each way.
    let sent = pair.sent - before;
    assert!((4_780..=4_820).contains(&sent), "{sent}");
}

#[test]
fn a_silent_neighbour_is_suspect_after_150_ms_and_dead_after_300() {
    let mut pair = brokers(2, Path::delay(5));
    let cut = pair.now;
    pair.cut = true;
    pair.run(ms(400));
    let [
        (suspect, Seen::Suspect),
        (down, Seen::Down(Refusal::Silent)),
    ] = &pair.seen[..2]
    else {
        panic!("{:?}", pair.seen);
    };
    // The last heartbeat came up to 50 ms before the cut, or was on its way.
    let after = |at: &Time, silence: Duration| {
        let took = *at - cut;
        assert!(
            took > silence - ms(50) && took <= silence + ms(5),
            "{took:?}"
        );
    };
    after(suspect, ms(150));
    after(down, ms(300));
    after(&pair.broker.down[0].0, ms(300));
}

#[test]
fn a_neighbour_heard_again_in_time_is_suspect_no_more() {
    let mut pair = brokers(3, Path::delay(5));
    pair.cut = true;
    pair.run(ms(220));
    pair.cut = false;
    pair.run(SECOND);
    let seen: Vec<_> = pair.seen.iter().map(|(_, seen)| seen).collect();
    assert_eq!(seen, [&Seen::Suspect, &Seen::Recovered]);
    assert!(
        pair.dialer
            .session()
            .is_some_and(|session| !session.is_suspect())
    );
}

#[test]
fn a_link_that_heals_is_back_in_a_tenth_of_a_second_after_a_short_cut() {
    for seed in 1..=50 {
        let mut pair = brokers(seed, Path::delay(5));
        pair.cut = true;
        while pair.seen.last().map(|(_, seen)| seen) != Some(&Seen::Down(Refusal::Silent)) {
            pair.run(ms(1));
        }
        pair.cut = false;
        // A pause of 50 to 75 ms and two round trips.
        let took = pair.run_until_up(SECOND);
        assert!(took <= ms(100), "seed {seed}: {took:?}");
    }
}

#[test]
fn a_link_that_was_cut_for_a_minute_is_back_within_a_second() {
    for seed in 1..=20 {
        let mut pair = brokers(seed, Path::delay(5));
        pair.cut = true;
        pair.run(60 * SECOND);
        pair.cut = false;
        let took = pair.run_until_up(5 * SECOND);
        assert!(took <= SECOND, "seed {seed}: {took:?}");
    }
}

#[test]
fn media_alone_keeps_a_neighbour_from_suspicion() {
    let mut pair = brokers(4, Path::delay(5));
    pair.cut = true;
    for _ in 0..100 {
        pair.run(ms(20));
        pair.dialer.received(pair.now, 200);
    }
    assert_eq!(pair.seen, []);
}

#[test]
fn five_of_a_hundred_lost_datagrams_neither_kill_a_link_nor_alarm_it_often() {
    let mut alarms = 0;
    for seed in 1..=3 {
        let path = Path {
            lost: 50,
            ..Path::delay(40)
        };
        let mut pair = brokers(seed, path);
        pair.run(600 * SECOND);
        assert_eq!(pair.broker.down, [], "seed {seed}");
        assert!(
            pair.seen
                .iter()
                .all(|(_, seen)| !matches!(seen, Seen::Down(_)))
        );
        alarms += pair
            .seen
            .iter()
            .filter(|(_, seen)| *seen == Seen::Suspect)
            .count();
    }
    assert!(alarms <= 3, "{alarms} alarms in half an hour");
}

#[test]
fn a_client_is_never_suspect() {
    let mut pair = Pair::joined(config(5), Path::delay(5));
    pair.seen.clear();
    pair.cut = true;
    pair.run(10 * SECOND);
    assert_eq!(pair.seen[0].1, Seen::Down(Refusal::Silent));
}

/// When a client's session asks until `end`, and when it gives up; `heard` every so often.
fn client(heard: Option<Duration>, end: Duration) -> (Vec<u64>, Option<u64>) {
    let timing = Timing::dialing(5 * SECOND, &mut Random::new(7));
    let mut session = session(timing, Time::ZERO);
    let (mut asked, mut now) = (Vec::new(), Time::ZERO);
    let mut next = heard.map(|every| Time::ZERO + every);
    while now <= Time::ZERO + end {
        if next == Some(now) {
            session.heard(now);
            next = heard.map(|every| now + every);
        }
        let outputs = outputs(&mut session, now);
        let ms = now.as_micros() / 1_000;
        if is_down(&outputs) {
            return (asked, Some(ms));
        }
        asked.extend(outputs.iter().map(|_| ms));
        let due = session.deadline().into_iter().chain(next).min();
        now = due.unwrap_or(Time::NEVER);
    }
    (asked, None)
}

#[test]
fn a_client_gives_up_a_broker_that_is_silent_for_two_seconds() {
    let (asked, down) = client(None, 10 * SECOND);
    assert_eq!(down, Some(2_000));
    // Often enough that a few may be lost.
    let apart = asked.windows(2).map(|two| two[1] - two[0]).max();
    assert!(apart.is_some_and(|apart| apart <= 750), "{asked:?}");
}

#[test]
fn a_client_asks_a_silent_broker_early_and_one_that_sends_only_at_its_time() {
    let (asked, down) = client(Some(ms(20)), 9 * SECOND);
    assert_eq!((asked.len(), down), (2, None), "{asked:?}");
    let (asked, down) = client(Some(ms(800)), 8 * SECOND);
    assert_eq!(down, None);
    assert!((9..=14).contains(&asked.len()), "{asked:?}");
}

#[test]
fn a_pause_of_the_stream_does_not_make_its_listeners_ask_together_from_then_on() {
    const LISTENERS: usize = 200;
    let mut random = Random::new(11);
    let mut sessions: Vec<Session> = (0..LISTENERS)
        .map(|_| session(Timing::dialing(5 * SECOND, &mut random), Time::ZERO))
        .collect();
    let paused = Time::from_millis(3_000)..Time::from_millis(3_900);
    let mut asked = vec![0; 300];
    for tick in 0..3_000 {
        let now = Time::from_millis(tick * 10);
        for session in &mut sessions {
            if !paused.contains(&now) {
                session.heard(now);
            }
            asked[tick as usize / 10] += outputs(session, now).len();
        }
    }
    let most = |times: &[usize]| times.iter().copied().max().unwrap_or_default();
    // All of them ask in the pause; 20 s later a tenth of a second has its share, which is 5.
    assert!(most(&asked[30..45]) > LISTENERS / 4, "{asked:?}");
    assert!(most(&asked[230..]) < LISTENERS / 12, "{asked:?}");
}

#[test]
fn a_broker_that_slept_does_not_take_its_peers_for_dead() {
    let mut now = Time::from_millis(1_000);
    let mut session = session(Timing::BROKER, now);
    for sleep in [ms(310), ms(2_000), ms(60_000)] {
        outputs(&mut session, now);
        // Nothing could be heard meanwhile: nobody polled.
        now += sleep;
        assert!(!is_down(&outputs(&mut session, now)), "{sleep:?}");
        session.heard(now);
        assert!(!outputs(&mut session, now).contains(&Output::Suspect));
    }
    assert_eq!(session.counters().late, 3);
}

#[test]
fn a_peer_that_died_while_the_broker_slept_is_found_dead_soon_after() {
    let start = Time::from_millis(1_000);
    let mut session = session(Timing::BROKER, start);
    outputs(&mut session, start);
    let woken = start + ms(2_000);
    outputs(&mut session, woken);
    let mut now = woken;
    loop {
        now = now.max(session.deadline().expect("the session is up"));
        if is_down(&outputs(&mut session, now)) {
            break;
        }
    }
    // Of the silence, 50 ms passed before the broker should have been polled.
    assert!(
        now - woken >= ms(50) && now - woken <= ms(250),
        "{:?}",
        now - woken
    );
}

#[test]
fn a_loop_that_is_always_late_finds_a_dead_peer_all_the_same() {
    let mut session = session(Timing::BROKER, Time::ZERO);
    let mut now = Time::ZERO;
    while !is_down(&outputs(&mut session, now)) {
        now = session.deadline().expect("the session is up") + ms(40);
    }
    assert!(now <= Time::from_millis(1_000), "{now}");
    assert!(session.counters().late <= 8);
}

#[test]
fn each_answered_ping_tells_what_was_delivered_and_lost() {
    let mut session = session(Timing::BROKER, Time::ZERO);
    let mut samples = Vec::new();
    let mut received = Traffic::default();
    let mut now = Time::ZERO;
    for round in 0..4_u64 {
        let pings = outputs(&mut session, now);
        let [Output::Transmit(bytes)] = &pings[..] else {
            panic!("{pings:?}");
        };
        let Ok(Frame::Ping {
            sent_us,
            traffic: Some(sent),
            ..
        }) = Frame::decode(bytes)
        else {
            panic!("a ping of a broker tells its traffic");
        };
        // The peer misses one packet of each ten, and its clock is an hour ahead.
        received.packets = sent.packets - round;
        received.bytes = sent.bytes - 1_000 * round;
        let pong = Frame::Pong {
            session: 1,
            echo_us: sent_us,
            now_us: sent_us + 3_600_000_000 + 20_000,
            traffic: Some(received),
        };
        session.handle(now + ms(24), Input::Frame(&pong));
        for output in outputs(&mut session, now + ms(24)) {
            if let Output::Sample(sample) = output {
                samples.push(sample);
            }
        }
        session.sent(now, 10, 10_000);
        // Media flows, so the next ping comes early.
        now += ms(25);
        assert_eq!(session.deadline(), Some(now));
    }
    assert_eq!(samples.len(), 3);
    for sample in samples {
        assert_eq!((sample.packets, sample.lost), (11, 1));
        assert_eq!((sample.sent, sample.delivered), (10_030, 9_030));
        assert_eq!(sample.rtt, ms(24));
        assert_eq!((sample.sent_over, sample.delivered_over), (ms(25), ms(25)));
    }
    let measured = session.measured().expect("pings were answered");
    assert_eq!(measured.rtt, ms(24));
    assert_eq!(measured.loss_ppm, 1_000_000 / 11);
}

#[test]
fn what_comes_by_a_group_is_measured_and_proves_no_life() {
    let mut now = Time::from_millis(1_000);
    let mut session = session(Timing::BROKER, now);
    session.received(now, 100);
    let mut all = Vec::new();
    for _ in 0..31 {
        now += ms(10);
        session.received_by_group(1_000);
        all.extend(outputs(&mut session, now));
    }
    assert!(all.contains(&Output::Suspect) && is_down(&all), "{all:?}");
    let (_, received) = session.traffic().expect("a broker measures");
    assert_eq!(
        received,
        Traffic {
            packets: 32,
            bytes: 31_100
        }
    );
}

/// When a session that has long measured this round trip suspects its peer, and gives it up,
/// once nothing comes any more.
fn silences(timing: Timing, rtt: Duration) -> (Duration, Duration) {
    let mut now = Time::from_millis(1_000);
    let mut session = session(timing, now);
    let mut pongs = VecDeque::new();
    for _ in 0..2_000 {
        for output in outputs(&mut session, now) {
            let Output::Transmit(bytes) = output else {
                continue;
            };
            if let Ok(Frame::Ping { sent_us, .. }) = Frame::decode(&bytes) {
                pongs.push_back((now + rtt, sent_us));
            }
        }
        while let Some((_, sent_us)) = pongs.front().filter(|(at, _)| *at <= now).copied() {
            pongs.pop_front();
            let pong = Frame::Pong {
                session: 1,
                echo_us: sent_us,
                now_us: sent_us,
                traffic: None,
            };
            session.handle(now, Input::Frame(&pong));
        }
        // The peer pings, too.
        session.heard(now);
        now += ms(1);
    }
    session.heard(now);
    let (heard, mut suspect) = (now, None);
    loop {
        let said = outputs(&mut session, now);
        if is_down(&said) {
            return (suspect.expect("suspicion comes first"), now - heard);
        }
        if said.contains(&Output::Suspect) {
            suspect = Some(now - heard);
        }
        now += ms(1);
    }
}

#[test]
fn a_long_stream_may_be_silent_while_a_lost_segment_comes_again() {
    let stream = Timing::BROKER_BY_STREAM;
    for near in [1, 10, 30] {
        let near = silences(stream, ms(near));
        assert_eq!(near, (ms(150), ms(300)), "as by datagrams");
    }
    assert_eq!(silences(Timing::BROKER, ms(100)), (ms(150), ms(300)));
    // One loss: until the next ping, a round trip and a quarter. If the repetition is lost, too:
    // another round trip and 200 ms.
    let (suspect, dead) = silences(stream, ms(100));
    assert!(
        suspect > ms(50 + 25 + 125) && dead >= ms(500),
        "{suspect:?}, {dead:?}"
    );
    assert!(suspect < ms(300) && dead < ms(600), "{suspect:?}, {dead:?}");
    let (suspect, dead) = silences(stream, ms(900));
    assert_eq!((suspect, dead), (ms(750), ms(1_500)), "that is the most");
}
