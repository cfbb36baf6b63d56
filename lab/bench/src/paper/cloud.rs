//! Fox, Ho, Chan, Wang: Measured Characteristics of Distributed Cloud Computing Infrastructure.

use super::Table;

/// One ping a second for a day and a half over the idle path.
pub(crate) const STABILITY: &[Table] = &[Table {
    source: "Fox et al., message-level measurement",
    labels: &[],
    columns: &["probes", "lost", "seconds"],
    rows: &[&[129_600.0, 1.0, 129_600.0]],
}];

/// Throughput between two clouds by parallel connections, and by pairs of instances with 64
/// connections each. The figures' other points are not printed as numbers.
pub(crate) const LINK_THROUGHPUT: &[Table] = &[
    Table {
        source: "Fox et al., Figure 1",
        labels: &[("transport", "tcp")],
        columns: &["pairs", "connections", "throughput_mbps"],
        rows: &[&[1.0, 128.0, 126.0]],
    },
    Table {
        source: "Fox et al., Figure 2 (nearly 500)",
        labels: &[("transport", "tcp")],
        columns: &["pairs", "connections", "throughput_mbps"],
        rows: &[&[4.0, 64.0, 500.0]],
    },
];

/// Meetings of 200, publishers and subscribers in the USA, the broker in Europe, so that each
/// message crosses the Atlantic twice: the paper's round trip is publisher to broker to
/// subscriber.
pub(crate) const CLOUD_VOIP: &[Table] = &[Table {
    source: "Fox et al., Table 1",
    labels: &[],
    columns: &[
        "users",
        "latency_min_ms",
        "latency_max_ms",
        "latency_avg_ms",
        "jitter_ms",
    ],
    rows: &[
        &[200.0, 90.15, 124.0, 99.51, 16.70],
        &[400.0, 91.09, 133.81, 108.38, 26.92],
        &[600.0, 90.61, 155.79, 109.80, 28.67],
        &[800.0, 91.21, 183.69, 107.56, 29.67],
        &[1200.0, 91.87, 189.82, 110.79, 35.48],
        &[1400.0, 92.18, 165.74, 106.39, 38.69],
        &[1600.0, 94.40, 235.14, 118.94, 50.63],
        &[1800.0, 93.56, 197.89, 110.80, 33.77],
        &[2000.0, 91.25, 270.44, 110.93, 31.98],
        &[2200.0, 108.30, 318.08, 151.66, 74.33],
        &[2400.0, 93.2, 682.01, 141.82, 57.92],
    ],
}];
