//! The XML document against its published schema, as any validating reader would check it.

#![allow(clippy::unwrap_used, reason = "helpers of a test fail like a test")]

use std::fs;
use std::path::Path;
use std::process::Command;

use sangam_control::monitor::{
    BrokerMap, BrokerReport, BrokerView, Drops, LinkReport, Load, Network, PlannedWay,
    StreamReport, xml,
};
use sangam_model::BrokerId;

/// What a validator says to a document, unless it is valid.
fn complaint(document: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("network.xml");
    fs::write(&path, document).unwrap();
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/spec/monitor.xsd");
    let checked = Command::new("xmllint")
        .args(["--noout", "--schema"])
        .args([&schema, &path])
        .output()
        .expect("xmllint, which scripts/setup.sh test installs");
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    (!checked.status.success()).then_some(said)
}

/// A link of which everything is known.
fn measured() -> LinkReport {
    LinkReport {
        peer: Some(BrokerId(0xffff_ffff)),
        address: "[2001:db8::1]:4600".to_owned(),
        transport: "udp".to_owned(),
        age_ms: 40_000,
        up: true,
        suspect: Some(false),
        weight: Some(u32::MAX),
        pinned_by: Some("threshold".to_owned()),
        rtt_us: Some(u64::MAX),
        jitter_us: Some(1),
        loss_ppm: Some(1_000_000),
        bandwidth_bps: Some(10_000_000),
        in_bps: Some(0),
        out_bps: Some(1),
        queue_packets: Some(2),
        queue_bytes: Some(3),
        queue_us: Some(4),
        dropped_packets: Some(5),
    }
}

fn full() -> BrokerView {
    let mut report = BrokerReport {
        schema: 1,
        broker: BrokerId(7),
        incarnation: 255,
        name: "oslo <&> \"x\"".to_owned(),
        region: Some("north".to_owned()),
        age_ms: 7,
        clock_off_ms: Some(-3_600_000),
        load: Load {
            cpu_cores: Some(0.125),
            cpu_share: Some(1e-7),
            memory_bytes: Some(1),
        },
        map: BrokerMap {
            epoch: Some(9),
            brokers: 2,
        },
        drops: vec![Drops {
            reason: "video_late".to_owned(),
            packets: 3,
            per_s: 1,
        }],
        interest: vec!["demo/+/\u{e9}".to_owned()],
        origins: vec![StreamReport {
            id: "00000007.0.1".to_owned(),
            topic: "a/b".to_owned(),
            links: 1,
        }],
        routing: Some("vcroute".to_owned()),
        planned: vec![PlannedWay {
            origin: BrokerId(8),
            parent: BrokerId(0xffff_ffff),
        }],
        links: vec![measured(), LinkReport::default()],
        ..BrokerReport::default()
    };
    report.traffic.received_bytes = Some(u64::MAX);
    BrokerView {
        report,
        stale: true,
        clock_wrong: true,
        digest: true,
        via: Some("east".to_owned()),
    }
}

#[test]
fn a_document_is_valid_whatever_is_known() {
    let bare = BrokerView::default();
    let mut network = Network::new("here", 1, vec![bare, full()]);
    network.clock_off_ms = Some(-1);
    let document = xml::document(&network);
    assert_eq!(complaint(&document), None, "{document}");
    assert_eq!(complaint(&xml::document(&Network::default())), None);
}

#[test]
fn the_schema_refuses_what_it_does_not_describe() {
    let document = xml::document(&Network::new("here", 1, vec![full()]));
    for (good, bad) in [
        ("up=\"true\"", "up=\"true\" colour=\"red\""),
        ("broker=\"00000007\"", "broker=\"7\""),
        ("loss_ppm=\"1000000\"", "loss_ppm=\"1.5\""),
        ("<summary", "<sum"),
    ] {
        assert!(document.contains(good), "{good}");
        let said = complaint(&document.replace(good, bad));
        assert!(said.is_some(), "{bad} passes");
    }
}
