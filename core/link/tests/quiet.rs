//! Links on which little happens: few pings, and silence that counts only after a question.

mod pair;

use std::time::Duration;

use pair::{BROKER_ROLE, Pair, Path, Seen, accepted, config};
use sangam_link::{Backoff, DialerConfig, Input, Output, Session, SessionConfig, Timing};
use sangam_model::Time;
use sangam_wire::{Capabilities, Frame, Refusal, Traffic};

const SECOND: Duration = Duration::from_secs(1);
/// A link is lively for two seconds after it came up, and a ping has to say that it ends.
const CALM: Duration = Duration::from_secs(3);
/// Bytes of IP and UDP headers.
const HEADERS: usize = 28;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Two brokers of this release whose link has carried nothing for a while.
fn brokers(seed: u64, path: Path) -> Pair {
    between(Capabilities::OURS, seed, path)
}

fn between(capabilities: Capabilities, seed: u64, path: Path) -> Pair {
    let config = DialerConfig {
        role: BROKER_ROLE,
        capabilities,
        backoff: Backoff::BROKER,
        ..config(seed)
    };
    let mut pair = Pair::joined(config, path);
    pair.run(CALM);
    pair.seen.clear();
    pair
}

/// The peer's events come every so often, for so long.
fn receive(pair: &mut Pair, every: Duration, time: Duration) {
    let end = pair.now + time;
    while pair.now < end {
        pair.broker_sends(200);
        pair.run(every);
    }
}

fn took(pair: &Pair, from: Time, wanted: &Seen) -> Option<Duration> {
    let mut seen = pair.seen.iter();
    let (at, _) = seen.find(|(_, seen)| seen == wanted)?;
    Some(*at - from)
}

/// Units, and bits a second each way with headers, in so long.
fn says(pair: &mut Pair, time: Duration) -> (usize, usize) {
    let (sent, bytes) = (pair.sent, pair.bytes);
    pair.run(time);
    let sent = pair.sent - sent;
    let bytes = pair.bytes - bytes + sent * HEADERS;
    (sent, bytes * 8 / time.as_secs() as usize / 2)
}

#[test]
fn an_idle_link_pings_twice_a_second_each_way() {
    // However long it is.
    for delay in [5, 150] {
        let mut pair = brokers(1, Path::delay(delay));
        let (sent, bits) = says(&mut pair, 60 * SECOND);
        // Two kilobits a second each way, where it was twenty.
        assert!(
            (470..=490).contains(&sent) && bits < 2_100,
            "{sent}, {bits}"
        );
        assert_eq!(pair.seen, []);
    }
}

#[test]
fn an_idle_link_measures_as_well_as_one_that_is_pinged_all_the_time() {
    let mut pair = brokers(2, Path::delay(5));
    pair.path = Path::delay(40);
    pair.run(2 * SECOND);
    let measured = pair.dialer.session().and_then(Session::measured).unwrap();
    assert!(
        measured.rtt > ms(70),
        "a change counts in two seconds: {measured:?}"
    );
    pair.path.lost = 100;
    pair.run(60 * SECOND);
    let measured = pair.dialer.session().and_then(Session::measured).unwrap();
    let lost = 30_000..200_000;
    assert!(lost.contains(&measured.loss_ppm), "{measured:?}");
}

#[test]
fn one_ping_that_is_lost_says_little() {
    let mut pair = brokers(3, Path::delay(5));
    pair.run(20 * SECOND);
    pair.cut = true;
    pair.run(ms(60));
    while pair.cut {
        let sent = pair.sent;
        pair.run(ms(1));
        pair.cut = pair.sent == sent;
    }
    pair.run(2 * SECOND);
    let measured = pair.dialer.session().and_then(Session::measured).unwrap();
    assert!(measured.loss_ppm <= 20_000, "{measured:?}");
}

#[test]
fn a_silent_neighbour_that_sent_media_is_suspect_after_150_ms_and_dead_after_300() {
    for every in [20, 66] {
        let mut pair = brokers(4, Path::delay(5));
        receive(&mut pair, ms(every), 3 * SECOND);
        assert_eq!(pair.seen, []);
        let cut = pair.now;
        pair.cut = true;
        pair.run(ms(400));
        let suspect = took(&pair, cut, &Seen::Suspect).unwrap();
        let dead = took(&pair, cut, &Seen::Down(Refusal::Silent)).unwrap();
        // The last packet left up to 50 ms before, and took 5 ms.
        assert!((ms(100)..=ms(155)).contains(&suspect), "{suspect:?}");
        assert!((ms(250)..=ms(305)).contains(&dead), "{dead:?}");
    }
}

#[test]
fn media_of_a_second_ago_is_watched_as_well() {
    let mut pair = brokers(5, Path::delay(5));
    receive(&mut pair, ms(20), SECOND);
    pair.run(SECOND);
    let cut = pair.now;
    pair.cut = true;
    pair.run(ms(400));
    let dead = took(&pair, cut, &Seen::Down(Refusal::Silent)).unwrap();
    assert!(dead <= ms(305), "{dead:?}");
}

#[test]
fn an_idle_link_that_dies_is_noticed_within_its_next_ping_and_600_ms() {
    for seed in 1..=30 {
        let mut pair = brokers(seed, Path::delay(20));
        pair.run(ms(seed * 17));
        let cut = pair.now;
        pair.cut = true;
        pair.run(2 * SECOND);
        let suspect = took(&pair, cut, &Seen::Suspect).unwrap();
        let dead = took(&pair, cut, &Seen::Down(Refusal::Silent)).unwrap();
        // An answer may be on its way for 100 ms.
        assert!(suspect <= ms(500 + 100 + 305), "seed {seed}: {suspect:?}");
        assert!(dead <= ms(500 + 100 + 605), "seed {seed}: {dead:?}");
        assert!(suspect >= ms(350) && dead - suspect == ms(300), "{dead:?}");
    }
}

#[test]
fn a_message_on_an_idle_link_is_a_question() {
    let mut pair = brokers(6, Path::delay(5));
    pair.run(ms(40));
    let cut = pair.now;
    pair.cut = true;
    pair.send(accepted(1));
    pair.run(SECOND);
    let suspect = took(&pair, cut, &Seen::Suspect).unwrap();
    assert!(suspect <= ms(405), "{suspect:?}");
}

#[test]
fn an_idle_link_that_loses_much_lives_and_alarms_seldom() {
    let mut alarms = 0;
    for seed in 1..=3 {
        let path = Path {
            lost: 50,
            ..Path::delay(40)
        };
        let mut pair = brokers(seed, path);
        pair.run(1_200 * SECOND);
        assert_eq!(pair.broker.down, [], "seed {seed}");
        let is = |wanted: &Seen| pair.seen.iter().filter(|(_, seen)| seen == wanted).count();
        assert_eq!(is(&Seen::Down(Refusal::Silent)), 0, "seed {seed}");
        alarms += is(&Seen::Suspect);
    }
    assert!(alarms <= 3, "{alarms} alarms in an hour");
}

#[test]
fn a_link_whose_delay_jumps_by_seconds_lives_if_nothing_needs_it() {
    let mut pair = brokers(7, Path::delay(20));
    for delay in [180, 20, 190, 60] {
        pair.path = Path::delay(delay);
        pair.run(5 * SECOND);
    }
    let ended = |(_, seen): &(_, Seen)| matches!(seen, Seen::Down(_));
    assert!(!pair.seen.iter().any(ended), "{:?}", pair.seen);
}

/// By way of a satellite, or through a queue that holds seconds.
#[test]
fn a_link_with_a_round_trip_of_seconds_comes_up_once_and_stays() {
    for delay in [350, 700, 1_300] {
        let mut pair = brokers(10, Path::delay(delay));
        pair.run(60 * SECOND);
        assert_eq!(pair.broker.down, [], "{delay} ms each way");
        assert_eq!(pair.seen, [], "{delay} ms each way");
    }
}

/// Whoever accepts a call and hears nothing more is not left waiting for ever.
#[test]
fn a_caller_that_vanishes_at_once_is_dead_after_three_seconds() {
    let heard = Time::from_millis(1_000);
    let mut session = begun(heard);
    let mut said = Vec::new();
    for at in 1_000..5_000 {
        let now = Time::from_millis(at);
        while let Some(output) = session.poll(now) {
            if matches!(output, Output::Suspect | Output::Down(_)) {
                said.push((now - heard, output));
            }
        }
    }
    let down = Output::Down(Refusal::Silent);
    assert_eq!(said, [(ms(1_500), Output::Suspect), (ms(3_000), down)]);
}

/// A path that never lasts makes its link come and go ever more seldom.
#[test]
fn a_link_that_flaps_is_dialled_ever_more_seldom() {
    let mut pair = brokers(11, Path::delay(5));
    let ups = |pair: &mut Pair| {
        pair.seen.clear();
        let end = pair.now + 60 * SECOND;
        while pair.now < end {
            pair.cut = !pair.cut;
            pair.run(SECOND);
        }
        let up = |(_, seen): &&(Time, Seen)| matches!(seen, Seen::Up(_));
        pair.seen.iter().filter(up).count()
    };
    let (first, later) = (ups(&mut pair), ups(&mut pair));
    assert!((5..=15).contains(&first) && later <= 7, "{first}, {later}");
    pair.cut = false;
    pair.run(30 * SECOND);
    // It has lasted: all is forgotten.
    pair.cut = true;
    pair.run(SECOND);
    pair.cut = false;
    assert!(pair.run_until_up(5 * SECOND) <= ms(400));
}

#[test]
fn one_voice_costs_the_link_less_than_five_percent() {
    let mut pair = brokers(8, Path::delay(20));
    let (sent, bytes) = (pair.sent, pair.bytes);
    // 172 bytes of payload every 10 ms, as in the laboratory.
    let end = pair.now + 30 * SECOND;
    let mut media = 0;
    while pair.now < end {
        pair.dialer_sends(172);
        media += 172 + HEADERS;
        pair.run(ms(10));
    }
    let own = pair.bytes - bytes + (pair.sent - sent) * HEADERS;
    let percent = 100.0 * own as f64 / (own + media) as f64;
    assert!(percent < 5.0, "{percent:.1} %");
}

#[test]
fn a_broker_of_the_release_before_is_pinged_as_ever() {
    let before = Capabilities::FRAGMENTS.with(Capabilities::PROBES);
    let mut pair = between(before, 9, Path::delay(5));
    let sent = pair.sent;
    pair.run(60 * SECOND);
    let sent = pair.sent - sent;
    assert!((4_780..=4_820).contains(&sent), "{sent}");
    let cut = pair.now;
    pair.cut = true;
    pair.run(ms(400));
    assert!(took(&pair, cut, &Seen::Suspect).unwrap() <= ms(155));
}

/// A session that may rest and has heard nothing yet.
fn begun(now: Time) -> Session {
    let config = SessionConfig {
        number: 1,
        timing: Timing::BROKER,
        datagram_max: 1_472,
        reliable: false,
    };
    let mut session = Session::new(config, now);
    session.rest(now);
    session
}

/// A session that may rest, with nothing on it for a while, and its peer's clock.
fn resting() -> (Session, Time) {
    let mut now = Time::from_millis(1_000);
    let mut session = begun(now);
    for _ in 0..400 {
        answer(&mut session, now, |_| true);
        now += ms(10);
    }
    (session, now)
}

/// Answers pings of a session by a peer that says it is quiet if `quiet`; whether each ping said
/// so.
fn answer(session: &mut Session, now: Time, quiet: impl Fn(u64) -> bool) -> Vec<bool> {
    let mut said = Vec::new();
    while let Some(output) = session.poll(now) {
        let Output::Transmit(bytes) = output else {
            continue;
        };
        if let Ok(Frame::Ping {
            sent_us, quiet: it, ..
        }) = Frame::decode(&bytes)
        {
            said.push(it);
            let pong = Frame::Pong {
                session: 1,
                echo_us: sent_us,
                now_us: now.as_micros(),
                traffic: Some(Traffic::default()),
                quiet: quiet(sent_us),
            };
            session.handle(now, Input::Frame(&pong));
        }
    }
    said
}

#[test]
fn who_sends_again_says_so_at_once() {
    let (mut session, now) = resting();
    answer(&mut session, now, |_| true);
    session.sent(now, 11, 2_000);
    assert!(session.deadline().is_some_and(|at| at > now));
    session.sent(now, 1, 200);
    assert_eq!(session.deadline(), Some(now));
    assert_eq!(answer(&mut session, now, |_| true), [false]);
}

#[test]
fn an_end_is_heard_until_the_peer_knows_that_it_is_quiet() {
    let config = SessionConfig {
        number: 1,
        timing: Timing::BROKER,
        datagram_max: 1_472,
        reliable: false,
    };
    let mut now = Time::from_millis(1_000);
    let mut session = Session::new(config, now);
    session.rest(now);
    let mut apart = Vec::new();
    let mut last = now;
    // Nothing is answered, but the peer is heard.
    for _ in 0..5_000 {
        now += ms(1);
        session.heard(now);
        while session.poll(now).is_some() {
            apart.push(now - last);
            last = now;
        }
    }
    assert!(apart.iter().all(|apart| *apart <= ms(50)), "{apart:?}");
}

#[test]
fn the_later_word_of_a_peer_counts_however_they_come() {
    let (mut session, now) = resting();
    let ping = |sent: Time, quiet: bool| Frame::Ping {
        session: 1,
        sent_us: sent.as_micros(),
        traffic: Some(Traffic {
            packets: 1,
            bytes: 30,
        }),
        quiet,
    };
    session.handle(now, Input::Frame(&ping(now + ms(2), false)));
    session.handle(now, Input::Frame(&ping(now + ms(1), true)));
    let mut at = now;
    while at < now + ms(160) && !session.is_suspect() {
        while session.poll(at).is_some() {}
        at += ms(1);
    }
    assert_eq!(at, now + ms(151), "a lively peer that falls silent");
}
