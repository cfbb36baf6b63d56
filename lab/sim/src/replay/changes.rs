//! How methods are set, and single changes of that.

use core::time::Duration;

use sangam_route::Method;
use sangam_route::method::{LinkStateSettings, Settings};
use sangam_route::predictor::Predictor;

use super::{Entry, Listener};

/// What a method is set to in the study: VCRoute has the paper's network, trained online.
pub(super) fn settings(method: Method) -> Settings {
    let learns = [
        Method::VcRoute,
        Method::VcRouteLiteral,
        Method::VcRouteProbed,
    ];
    Settings {
        predictor: if learns.contains(&method) {
            Predictor::online(1)
        } else {
            Predictor::Rule
        },
        ..Settings::default()
    }
}

/// Entries that differ from the study's in one thing.
pub(super) fn entries(receivers: &[Listener]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (name, predictor) in [
        ("vcroute-linear", Predictor::linear()),
        ("vcroute-rule", Predictor::Rule),
    ] {
        let mut entry = Entry::plain(Method::VcRoute, receivers.to_vec());
        name.clone_into(&mut entry.name);
        entry.settings.predictor = predictor;
        entries.push(entry);
    }
    let change = |name: &str, set: fn(&mut LinkStateSettings)| {
        let mut entry = Entry::plain(Method::Ours, receivers.to_vec());
        name.clone_into(&mut entry.name);
        set(&mut entry.settings.link_state);
        entry
    };
    entries.push(change("ours-no-copies", |set| set.duplicates = 0.0));
    entries.push(change("ours-no-risk", |set| set.deviations = 0.0));
    entries.push(change("ours-no-hysteresis", |set| {
        (set.margin_ms, set.margin_share) = (0.0, 0.0);
        (set.patience, set.rest) = (Duration::ZERO, Duration::ZERO);
    }));
    entries
}
