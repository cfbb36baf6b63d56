//! What holds for every receiver, whatever comes.

mod common;

use core::time::Duration;

use common::Told;
use proptest::collection::vec;
use proptest::prelude::*;
use sangam_jitter::{Config, HELD_MAX, Input, Kind, Packet, Receiver, RtpClock};
use sangam_model::Time;

/// A network that delays by up to 300 ms, loses and repeats; packets in the order of arrival.
fn network() -> impl Strategy<Value = Vec<(Time, Packet)>> {
    let fate = (0_u64..300, 0_u8..20, 1_u64..4);
    vec(fate, 1..400).prop_map(|fates| {
        let mut arrivals = Vec::new();
        let mut sent_ms = 1_000;
        for (seq, (delay_ms, luck, packets)) in (100..).zip(fates) {
            let packet = Packet {
                seq,
                sent: Time::from_millis(sent_ms),
            };
            sent_ms += 10 * packets * u64::from(luck > 10) + 10;
            let at = |extra| packet.sent + Duration::from_millis(50 + delay_ms + extra);
            if luck != 0 {
                arrivals.push((at(0), packet));
            }
            if luck == 1 {
                arrivals.push((at(7), packet));
            }
        }
        arrivals.sort_by_key(|(at, packet)| (*at, packet.seq));
        arrivals
    })
}

fn rises<T: PartialOrd>(values: impl IntoIterator<Item = T>) -> bool {
    values.into_iter().is_sorted()
}

proptest! {
    #[test]
    fn releases_rise_and_each_packet_has_one_fate(arrivals in network()) {
        for kind in Kind::ALL {
            let mut receiver = Receiver::new(kind, &Config::default());
            let mut told = Told::default();
            told.arrivals(&mut receiver, &arrivals, true);
            told.until(&mut receiver, Time::from_millis(60_000));
            let (releases, plays) = (&told.releases, &told.plays);
            prop_assert!(rises(releases.iter().map(|(_, at)| *at)), "{kind}");
            prop_assert!(rises(plays.iter().map(|(_, at)| *at)), "{kind}");
            let strictly = releases.windows(2).all(|pair| pair[0].0 < pair[1].0);
            prop_assert!(strictly, "{kind} releases twice or out of order");
            prop_assert_eq!(plays.len(), releases.len(), "{}", kind);
            for (release, play) in releases.iter().zip(plays) {
                prop_assert_eq!(release.0, play.0);
                prop_assert!(release.1 <= play.1, "{} plays before it releases", kind);
            }
            let stats = receiver.stats();
            let fates = stats.released + stats.late + stats.duplicates;
            let literal = matches!(kind, Kind::WmJitterLiteral | Kind::WmJitterLiteralWindow);
            prop_assert!(fates <= stats.received);
            prop_assert!(fates == stats.received || literal, "{kind} keeps packets for ever");
            prop_assert_eq!(stats.unread, 0);
        }
    }

    #[test]
    fn timers_change_when_it_is_told_but_not_what(arrivals in network()) {
        for kind in Kind::ALL {
            let [with, without] = [true, false].map(|timers| {
                let mut receiver = Receiver::new(kind, &Config::default());
                let mut told = Told::default();
                told.arrivals(&mut receiver, &arrivals, timers);
                told.until(&mut receiver, Time::from_millis(60_000));
                told
            });
            prop_assert_eq!(with, without, "{}", kind);
        }
    }

    #[test]
    fn nonsense_does_no_harm(
        inputs in vec((any::<u64>(), any::<u64>(), 0_u64..10_000_000, any::<bool>()), 1..300),
    ) {
        for kind in Kind::ALL {
            let mut receiver = Receiver::new(kind, &Config::default());
            let mut told = Told::default();
            let mut now = Time::ZERO;
            for (seq, sent, later, near) in &inputs {
                now += Duration::from_micros(*later);
                let packet = Packet {
                    seq: if *near { seq % (4 * HELD_MAX as u64) } else { *seq },
                    sent: Time::from_micros(if *near { sent % 5_000_000 } else { *sent }),
                };
                receiver.handle(now, Input::Packet(packet));
                prop_assert!(receiver.deadline().is_none_or(|at| at > now), "{kind}");
                told.read(&mut receiver);
            }
            let unique = told.releases.windows(2).all(|pair| pair[0].0 != pair[1].0);
            prop_assert!(unique, "{kind}");
        }
    }

    #[test]
    fn nonsense_in_rtp_headers_does_no_harm(
        rate in prop_oneof![Just(0), Just(1), Just(48_000), any::<u32>()],
        headers in vec((any::<u16>(), any::<u32>(), 0_u16..4, 0_u64..100_000), 1..300),
    ) {
        let mut clock = RtpClock::new(rate);
        let mut receivers = Kind::ALL.map(|kind| Receiver::new(kind, &Config::default()));
        let (mut now, mut sequence) = (Time::ZERO, 0_u16);
        for (jump, timestamp, kind, later) in headers {
            now += Duration::from_micros(later);
            sequence = if kind == 0 { jump } else { sequence.wrapping_add(kind) };
            if jump % 50 == 0 {
                clock.restart();
            }
            let Some(packet) = clock.packet(sequence, timestamp) else {
                continue;
            };
            for receiver in &mut receivers {
                receiver.handle(now, Input::Packet(packet));
                let mut told = Told::default();
                told.read(receiver);
            }
        }
    }
}
