//! What a path does to packets, on virtual time.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use sangam_emulator::{
    Cause, Delay, Fate, Jitter, Loss, Path, Quality, Rate, Reordering, Shape, State, Trace,
};
use sangam_model::Time;

const MS: Duration = Duration::from_millis(1);
const PACKETS: u64 = 100_000;

fn path(quality: Quality) -> Path {
    quality.check().expect("a test's quality is in range");
    Path::new(quality, 1, 0)
}

/// The fates of packets of `len` bytes, one each `gap`.
fn fates(path: &mut Path, len: usize, gap: Duration) -> Vec<(Time, Fate)> {
    let times = (0..PACKETS).map(|n| Time::from_millis(1) + gap * n as u32);
    times.map(|now| (now, path.handle(now, len))).collect()
}

fn delays(fates: &[(Time, Fate)]) -> Vec<f64> {
    let delay = |(sent, fate): &(Time, Fate)| match fate {
        Fate::Arrives { at, .. } => Some((*at - *sent).as_secs_f64() * 1e3),
        Fate::Lost(_) => None,
    };
    fates.iter().filter_map(delay).collect()
}

fn lost(fates: &[(Time, Fate)]) -> Vec<bool> {
    let lost = |(_, fate): &(Time, Fate)| *fate == Fate::Lost(Cause::Loss);
    fates.iter().map(lost).collect()
}

fn share(flags: &[bool]) -> f64 {
    flags.iter().filter(|flag| **flag).count() as f64 / flags.len() as f64
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / values.len() as f64).sqrt()
}

#[test]
fn a_constant_delay_is_kept_to_the_microsecond() {
    let mut path = path(Quality::delayed(MS * 45));
    assert!(
        delays(&fates(&mut path, 100, MS))
            .iter()
            .all(|delay| *delay == 45.0)
    );
}

#[test]
fn random_loss_has_its_share() {
    let mut path = path(Quality {
        loss: Loss::Random(0.03),
        ..Quality::default()
    });
    let lost = lost(&fates(&mut path, 100, MS));
    // Four deviations of the binomial distribution are 0.0022.
    assert!((share(&lost) - 0.03).abs() < 0.0022, "{}", share(&lost));
    assert_eq!(
        path.counters.lost,
        lost.iter().filter(|lost| **lost).count() as u64
    );
}

#[test]
fn bursts_have_their_share_and_length() {
    let mut path = path(Quality {
        loss: Loss::Bursts {
            share: 0.05,
            length: 8.0,
        },
        ..Quality::default()
    });
    let lost = lost(&fates(&mut path, 100, MS));
    assert!((share(&lost) - 0.05).abs() < 0.012, "{}", share(&lost));
    let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    let length = share(&lost) * lost.len() as f64 / bursts as f64;
    assert!((7.0..9.0).contains(&length), "{length}");
}

#[test]
fn shapes_of_jitter_have_their_moments() {
    let spread = MS * 5;
    for (shape, wanted) in [
        (Shape::Uniform, (50.0, 5.0 / 3_f64.sqrt())),
        (Shape::Normal, (50.0, 5.0)),
        (Shape::Queue, (55.0, 5.0)),
    ] {
        let mut path = path(Quality {
            jitter: Some(Jitter {
                shape,
                spread,
                memory: Duration::ZERO,
            }),
            ..Quality::delayed(MS * 50)
        });
        // So far apart that none waits for the one before.
        let delays = delays(&fates(&mut path, 100, MS * 1_000));
        let found = (mean(&delays), deviation(&delays));
        let close = (found.0 - wanted.0).abs() < 0.1 && (found.1 - wanted.1).abs() < 0.1;
        assert!(close, "{shape:?}: {found:?} instead of {wanted:?}");
    }
}

#[test]
fn jitter_lasts_as_long_as_its_memory() {
    let mut path = path(Quality {
        jitter: Some(Jitter {
            shape: Shape::Normal,
            spread: MS * 5,
            memory: MS * 100,
        }),
        ..Quality::delayed(MS * 100)
    });
    let delays = delays(&fates(&mut path, 100, MS * 20));
    let (mean, deviation) = (mean(&delays), deviation(&delays));
    let products = delays.windows(6).map(|d| (d[0] - mean) * (d[5] - mean));
    let correlation = products.sum::<f64>() / delays.len() as f64 / deviation.powi(2);
    assert!(
        (correlation - (-1.0_f64).exp()).abs() < 0.05,
        "{correlation}"
    );
}

#[test]
fn a_bottleneck_passes_its_rate_and_drops_what_its_queue_cannot_hold() {
    let rate = Rate::with_queue_of(8_000_000, MS * 20);
    let mut path = path(Quality {
        rate: Some(rate),
        ..Quality::delayed(MS * 10)
    });
    // 1,000 bytes each 0.5 ms are twice the rate.
    let fates = fates(&mut path, 1_000, MS / 2);
    let passed = delays(&fates);
    let half = passed.len() as f64 / PACKETS as f64;
    assert!((half - 0.5).abs() < 0.001, "{half}");
    let longest = passed.iter().copied().fold(0.0, f64::max);
    assert!((29.0..=30.0).contains(&longest), "{longest}");
    assert_eq!(path.counters.queue_full, PACKETS - passed.len() as u64);
}

#[test]
fn duplicates_and_hold_backs_have_their_share() {
    let mut path = path(Quality {
        duplicates: 0.02,
        reordering: Some(Reordering {
            share: 0.04,
            by: MS * 5,
        }),
        ..Quality::delayed(MS * 10)
    });
    let fates = fates(&mut path, 100, MS);
    let late = delays(&fates)
        .iter()
        .filter(|delay| **delay == 15.0)
        .count();
    assert!((3_700..4_300).contains(&late), "{late}");
    assert!((1_800..2_200).contains(&path.counters.duplicated));
    assert_eq!(path.counters.reordered, late as u64);
}

#[test]
fn a_trace_is_followed_from_the_moment_it_is_set() {
    let trace = Trace::series(MS * 100, &[MS * 20, MS * 30]).unwrap();
    let mut path = path(Quality::default());
    let start = Time::from_millis(5_000);
    path.set(
        start,
        Quality {
            delay: Delay::Trace(Arc::new(trace)),
            ..Quality::default()
        },
    );
    let mut delay = |ms: u32| match path.handle(start + MS * ms, 100) {
        Fate::Arrives { at, .. } => at - (start + MS * ms),
        Fate::Lost(cause) => panic!("lost by {cause:?}"),
    };
    assert_eq!([0, 150, 250].map(&mut delay), [MS * 20, MS * 30, MS * 20]);
}

#[test]
fn a_closed_path_passes_nothing_and_swallows_what_is_under_way() {
    for (state, cause) in [
        (State::Cut, Cause::Cut),
        (State::Blackhole, Cause::Blackhole),
    ] {
        let mut path = path(Quality {
            state,
            ..Quality::default()
        });
        assert_eq!(path.handle(Time::ZERO, 100), Fate::Lost(cause));
        assert!(!path.arrive(100));
        path.set(Time::ZERO, Quality::default());
        assert!(path.arrive(100));
    }
}

fn any_quality() -> impl Strategy<Value = Quality> {
    let shape = prop_oneof![
        Just(Shape::Uniform),
        Just(Shape::Normal),
        Just(Shape::Queue)
    ];
    let jitter = (shape, 0_u64..50, 0_u64..500).prop_map(|(shape, spread, memory)| Jitter {
        shape,
        spread: Duration::from_millis(spread),
        memory: Duration::from_millis(memory),
    });
    let rate = (1_u64..100_000_000, 0_u64..100)
        .prop_map(|(bits, ms)| Rate::with_queue_of(bits, Duration::from_millis(ms)));
    let loss = prop_oneof![
        Just(Loss::Never),
        (0.0..1.0).prop_map(Loss::Random),
        (0.0..0.9, 1.0..20.0).prop_map(|(share, length)| Loss::Bursts { share, length }),
    ];
    let options = (prop::option::of(jitter), prop::option::of(rate), loss);
    (0_u64..200, options).prop_map(|(delay, (jitter, rate, loss))| Quality {
        jitter,
        rate,
        loss,
        ..Quality::delayed(Duration::from_millis(delay))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn packets_keep_their_order_and_never_arrive_before_they_left(
        quality in any_quality(),
        gaps in prop::collection::vec(0_u64..20_000, 1..200),
    ) {
        let mut path = path(quality);
        let (mut now, mut last) = (Time::ZERO, Time::ZERO);
        for gap in gaps {
            now += Duration::from_micros(gap);
            if let Fate::Arrives { at, .. } = path.handle(now, 500) {
                prop_assert!(at >= now && at >= last);
                last = at;
            }
        }
    }

    #[test]
    fn a_seed_repeats_every_fate(quality in any_quality(), seed in any::<u64>()) {
        let run = || {
            let mut path = Path::new(quality.clone(), seed, 3);
            (0..200).map(|n| path.handle(Time::from_millis(n), 800)).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }
}
