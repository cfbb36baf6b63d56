//! Links on which little happens: few pings, and silence that counts only after a question.

mod pair;

use std::time::Duration;

use pair::{BROKER_ROLE, Pair, Path, Seen, accepted, config};
use sangam_link::{Asks, Backoff, DialerConfig, Input, Output, Session, SessionConfig, Timing};
use sangam_model::Time;
use sangam_wire::{Capabilities, Echo, Frame, Heard, Refusal};

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
fn an_idle_link_is_asked_twice_a_second_by_one_of_its_ends() {
    // However long it is.
    for delay in [5, 150] {
        let mut pair = brokers(1, Path::delay(delay));
        let (sent, bits) = says(&mut pair, 60 * SECOND);
        // Less than a kilobit a second each way, where it was twenty.
        assert!((236..=244).contains(&sent) && bits < 960, "{sent}, {bits}");
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

/// Who is asked knows as much as who asks, of the way it sends.
#[test]
fn both_ends_of_an_idle_link_measure_it() {
    let mut pair = brokers(12, Path::delay(5));
    pair.path = Path {
        up: ms(30),
        down: ms(60),
        ..Path::default()
    };
    pair.run(20 * SECOND);
    let dialer = pair.dialer.session().unwrap();
    let broker = pair.broker.session.as_ref().unwrap();
    for session in [dialer, broker] {
        let measured = session.measured().unwrap();
        assert!(measured.rtt.abs_diff(ms(90)) <= ms(1), "{measured:?}");
        assert_eq!(measured.loss_ppm, 0);
    }
    let offset = |session: &Session, now: Time| session.clock_offset(now).unwrap();
    let ahead = i64::try_from(pair.broker.ahead.as_micros()).unwrap();
    let (ours, theirs) = (
        offset(dialer, pair.now),
        offset(broker, pair.broker.clock(pair.now)),
    );
    for (offset, wanted) in [(ours, ahead), (theirs, -ahead)] {
        let wrong = offset.offset_us.abs_diff(wanted);
        assert!(
            u128::from(wrong) <= offset.uncertainty.as_micros(),
            "{offset:?}"
        );
    }
}

/// What is lost one way is counted by who sends it.
#[test]
fn either_end_counts_what_it_lost() {
    let mut pair = brokers(13, Path::delay(5));
    let end = pair.now + 10 * SECOND;
    let mut sent = 0_u64;
    while pair.now < end {
        sent += 1;
        // One of eight of the broker's; none of the dialer's.
        pair.cut = sent.is_multiple_of(8);
        pair.broker_sends(300);
        pair.cut = false;
        pair.dialer_sends(300);
        pair.run(ms(20));
    }
    let lost = |session: &Session| session.measured().unwrap().loss_ppm;
    assert_eq!(lost(pair.dialer.session().unwrap()), 0);
    let lost = lost(pair.broker.session.as_ref().unwrap());
    assert!((100_000..=130_000).contains(&lost), "{lost}");
}

/// The end that leaves asking to its peer asks when it is not asked.
#[test]
fn who_is_not_asked_any_more_asks() {
    let (begin, mut asked) = (Time::from_millis(1_000), Vec::new());
    let mut session = begun(begin);
    session.rest(begin, Asks::Otherwise);
    let mut now = begin;
    while now < begin + 10 * SECOND {
        // The peer asks until the sixth second.
        let since = now - begin;
        if since < 6 * SECOND && since.as_millis().is_multiple_of(500) {
            session.handle(now, Input::Frame(&echo(now, (true, true), None)));
        }
        let questions = answer(&mut session, now).len();
        // While it is lively it asks between.
        if since > CALM {
            asked.extend((0..questions).map(|_| since));
        }
        now += ms(1);
    }
    let first = *asked.first().unwrap();
    assert!(first >= ms(5_500 + 625), "{asked:?}");
    assert!(first <= ms(5_500 + 630), "{asked:?}");
    assert!(asked.len() >= 6, "{asked:?}");
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
        // Who was asked waits for the next question before it asks; the last took 20 ms to come.
        let [(ended, Refusal::Silent)] = pair.broker.down[..] else {
            panic!("seed {seed}: {:?}", pair.broker.down);
        };
        assert!(ended - cut <= ms(625 + 20 + 100 + 605), "seed {seed}");
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

/// Nothing else would wake whoever polls it for half a second.
#[test]
fn a_message_on_an_idle_link_is_due_at_once() {
    let (mut session, now) = resting();
    answer(&mut session, now);
    assert!(session.deadline().is_some_and(|at| at > now));
    session.handle(now, Input::Send(accepted(1)));
    assert!(session.deadline().is_some_and(|at| at <= now));
    let sent = session.poll(now);
    assert!(matches!(sent, Some(Output::Transmit(_))), "{sent:?}");
    assert_eq!(session.poll(now), None);
    assert!(session.deadline().is_some_and(|at| at > now));
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
    session.rest(now, Asks::First);
    session
}

/// A session that may rest, with nothing on it for a while, and its peer's clock.
fn resting() -> (Session, Time) {
    let mut now = Time::from_millis(1_000);
    let mut session = begun(now);
    for _ in 0..400 {
        answer(&mut session, now);
        now += ms(10);
    }
    (session, now)
}

/// Answers questions of a session by a peer that says it is quiet; whether each question said so.
fn answer(session: &mut Session, now: Time) -> Vec<bool> {
    let mut said = Vec::new();
    while let Some(output) = session.poll(now) {
        let Output::Transmit(bytes) = output else {
            continue;
        };
        if let Ok(Frame::Echo(Echo {
            now_us,
            asks: true,
            quiet,
            ..
        })) = Frame::decode(&bytes)
        {
            said.push(quiet);
            let heard = Heard {
                echo_us: now_us as u32,
                held_us: 0,
                packets: 0,
                bytes: 0,
            };
            let echo = echo(now, (false, true), Some(heard));
            session.handle(now, Input::Frame(&echo));
        }
    }
    said
}

fn echo(now: Time, (asks, quiet): (bool, bool), heard: Option<Heard>) -> Frame<'static> {
    Frame::Echo(Echo {
        session: 1,
        now_us: now.as_micros(),
        asks,
        quiet,
        heard,
    })
}

#[test]
fn who_sends_again_says_so_at_once() {
    let (mut session, now) = resting();
    answer(&mut session, now);
    session.sent(now, 11, 2_000);
    assert!(session.deadline().is_some_and(|at| at > now));
    session.sent(now, 1, 200);
    assert_eq!(session.deadline(), Some(now));
    assert_eq!(answer(&mut session, now), [false]);
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
    session.rest(now, Asks::First);
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
    let says = |at: Time, quiet: bool| echo(at, (true, quiet), None);
    session.handle(now, Input::Frame(&says(now + ms(2), false)));
    session.handle(now, Input::Frame(&says(now + ms(1), true)));
    let mut at = now;
    while at < now + ms(160) && !session.is_suspect() {
        while session.poll(at).is_some() {}
        at += ms(1);
    }
    assert_eq!(at, now + ms(151), "a lively peer that falls silent");
}
