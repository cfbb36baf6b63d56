//! Wu, Fox, Bulut, Uyar, Huang: Service Oriented Architecture for VoIP conferencing.

use super::Table;

/// One audio meeting on one broker.
pub(crate) const AUDIO_SINGLE_BROKER: &[Table] = &[Table {
    source: "Wu et al., Table 1",
    labels: &[],
    columns: &[
        "users",
        "latency_first_ms",
        "latency_last_ms",
        "latency_avg_ms",
        "jitter_ms",
        "late_percent",
        "out_mbps",
    ],
    rows: &[
        &[12.0, 0.5, 0.7, 0.6, 0.18, 0.0, 0.76],
        &[100.0, 0.5, 2.3, 1.4, 0.15, 0.0, 6.4],
        &[400.0, 0.5, 7.9, 4.2, 0.21, 0.0, 25.6],
        &[800.0, 0.5, 15.5, 8.0, 0.18, 0.0, 51.2],
        &[1200.0, 0.5, 22.6, 11.6, 0.22, 0.0, 76.8],
        &[1400.0, 0.5, 26.5, 13.5, 0.26, 0.0, 89.6],
        &[1500.0, 3.3, 32.3, 17.8, 0.44, 25.0, 96.0],
        &[1600.0, 2260.0, 2290.0, 2275.0, 1.2, 100.0, 102.4],
    ],
}];

/// One video meeting of N against N users in meetings of 20. The figure's curves are not given
/// as numbers; the text gives where each stops being good.
pub(crate) const MEETINGS_SINGLE_BROKER: &[Table] = &[
    Table {
        source: "Wu et al., section 4.1 on Figure 4: the largest that fares well",
        labels: &[("layout", "one meeting")],
        columns: &["users", "meetings"],
        rows: &[&[400.0, 1.0]],
    },
    Table {
        source: "Wu et al., section 4.1 on Figure 4: the largest that fares well",
        labels: &[("layout", "meetings of 20")],
        columns: &["users", "meetings"],
        rows: &[&[700.0, 35.0]],
    },
];

/// An audio conference over four brokers; only its size is reported.
pub(crate) const AUDIO_CHAIN: &[Table] = &[Table {
    source: "Wu et al., section 4.1: four brokers carry up to 6,400 participants",
    labels: &[],
    columns: &["brokers", "users"],
    rows: &[&[4.0, 6400.0]],
}];
