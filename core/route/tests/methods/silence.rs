//! What every method does when nothing is heard any more, and when something is heard again.

use sangam_model::Time;
use sangam_route::Method;
use sangam_route::method::Settings;
use sangam_route::predictor::Predictor;

use crate::world::{News, World, settings};
use crate::{calm, history};

const ALL: fn() -> Vec<Method> = || Method::ALL.into_iter().chain(Method::LIVE).collect();

/// Those that leave a path by what they hear of it. The rest never do: they look at nothing, or, to
/// the letter of the paper, take no lost packet for an observation.
const LEAVING: [Method; 8] = [
    Method::Via,
    Method::VcRoute,
    Method::VcRouteProbed,
    Method::SlidingThompson,
    Method::DiscountedThompson,
    Method::Ours,
    Method::ViaLive,
    Method::VcRouteLive,
];

/// As [`calm`], but relay 1 goes in the second minute, and does not come back.
fn gone(link: u16, now: Time) -> Option<i64> {
    let gone = (link == 2 || link == 6) && now >= Time::from_millis(90_000);
    if gone { None } else { calm(link, now) }
}

/// The share of the packets of so many seconds that arrive.
fn arriving(world: &mut World, seconds: u64) -> f64 {
    let before = world.transits.len();
    world.run(seconds);
    (world.transits.len() - before) as f64 / (seconds * 100) as f64
}

fn known() -> Settings {
    Settings {
        history: history(),
        ..settings()
    }
}

#[test]
fn a_sender_that_hears_nothing_more_stays_where_it_did_well() {
    for method in ALL() {
        let mut world = World::new(method, &known(), calm);
        world.run(60).mean_ms();
        let before_ms = world.run(60).mean_ms();
        world.news = News::None;
        let silent_ms = world.run(300).mean_ms();
        assert!(
            silent_ms < before_ms * 1.03,
            "{method:?}: {before_ms} ms, then {silent_ms} ms in silence"
        );
        world.news = News::All;
        world.run(10).mean_ms();
        let after_ms = world.run(60).mean_ms();
        assert!(
            after_ms < before_ms * 1.03,
            "{method:?}: {before_ms} ms, then {after_ms} ms"
        );
    }
}

#[test]
fn a_path_that_vanishes_in_silence_is_left_once_something_is_heard() {
    for method in LEAVING {
        let mut world = World::new(method, &known(), gone);
        world.run(60);
        world.news = News::None;
        world.run(60);
        world.news = News::All;
        world.run(30);
        let share = arriving(&mut world, 30);
        assert!(share > 0.9, "{method:?}: {share} of packets arrive again");
    }
}

#[test]
fn a_sender_whose_packets_all_seem_lost_comes_back_to_the_best_path() {
    let mut late = Vec::new();
    for method in LEAVING {
        let mut world = World::new(method, &known(), calm);
        world.run(60).mean_ms();
        let before_ms = world.run(30).mean_ms();
        world.news = News::Lost;
        assert_eq!(
            arriving(&mut world, 30),
            1.0,
            "{method:?} sends all the same"
        );
        world.news = News::All;
        world.run(90).mean_ms();
        let after_ms = world.run(60).mean_ms();
        // These two end on a path that they tried less while all seemed lost: VCRoute never
        // forgets, and hears of seventy losses a second by its probes; who discounts is soon sure
        // of any. It is no slower than the direct path.
        let stays = [Method::VcRouteProbed, Method::DiscountedThompson];
        let most = if stays.contains(&method) {
            205.0
        } else {
            before_ms * 1.1
        };
        if after_ms > most {
            late.push(format!("{method:?}: {before_ms} ms, then {after_ms} ms"));
        }
    }
    assert!(late.is_empty(), "{late:?}");
}

#[test]
fn ours_leaves_a_path_of_which_alone_nothing_is_heard() {
    let mut world = World::new(Method::Ours, &known(), gone);
    world.run(60);
    // Reports and answers that cross relay 1 vanish with the packets.
    world.run(30);
    world.news = News::AllBut(6);
    world.run(6);
    assert!(arriving(&mut world, 30) > 0.99);
    world.news = News::All;
    world.run(10);
    assert!(arriving(&mut world, 30) > 0.99);
}

#[test]
fn what_is_remembered_does_not_grow_in_silence_nor_after_it() {
    for method in ALL() {
        let settings = Settings {
            predictor: Predictor::online(1),
            window: 500,
            ..known()
        };
        let mut world = World::new(method, &settings, calm);
        // All that is remembered is there after the second round.
        let sizes = [(); 3].map(|()| {
            for news in [News::All, News::None, News::Lost] {
                world.news = news;
                world.run(60);
            }
            format!("{:?}", world.router).len()
        });
        assert!(
            sizes[2] < sizes[1] + sizes[1] / 4,
            "{method:?}: characters of its state are {sizes:?}"
        );
    }
}
