//! Uyar, Fox: Investigating the Performance of Audio/Video Service Architecture II.

use super::Table;

/// The columns of Tables 6 to 13.
const MEETING_COLUMNS: &[&str] = &[
    "meetings",
    "users",
    "broker",
    "latency_avg_ms",
    "jitter_ms",
    "loss_percent",
    "late_percent",
];

/// The columns of Tables 1 to 3.
const QUEUE_COLUMNS: &[&str] = &[
    "users_first",
    "users_second",
    "broker",
    "latency_first_ms",
    "latency_last_ms",
    "latency_avg_ms",
];

/// The columns of Tables 14 to 16.
const WIDE_COLUMNS: &[&str] = &[
    "users_per_site",
    "users",
    "latency_last_ms",
    "jitter_ms",
    "loss_percent",
    "site_mbps",
];

/// One broker in Indiana, publisher beside it, participants at four sites: the last users of each.
pub(crate) const WIDE_AREA: &[Table] = &[
    Table {
        source: "Uyar & Fox, Tables 14 to 16",
        labels: &[("site", "IN")],
        columns: WIDE_COLUMNS,
        rows: &[
            &[4.0, 16.0, 1.8, 0.6, 0.0, 1.2],
            &[50.0, 200.0, 10.84, 4.87, 0.0, 15.0],
            &[100.0, 400.0, 21.36, 9.95, 0.0, 30.0],
            &[150.0, 600.0, 33.04, 14.8, 0.0, 45.0],
        ],
    },
    Table {
        source: "Uyar & Fox, Tables 14 to 16",
        labels: &[("site", "NY")],
        columns: WIDE_COLUMNS,
        rows: &[
            &[4.0, 16.0, 13.28, 0.77, 0.02, 1.2],
            &[50.0, 200.0, 23.94, 4.45, 0.0, 15.0],
            &[100.0, 400.0, 36.25, 8.98, 0.05, 30.0],
            &[150.0, 600.0, 49.8, 13.4, 0.02, 45.0],
        ],
    },
    Table {
        source: "Uyar & Fox, Tables 14 to 16",
        labels: &[("site", "FL")],
        columns: WIDE_COLUMNS,
        rows: &[
            &[4.0, 16.0, 13.63, 2.42, 0.05, 1.2],
            &[50.0, 200.0, 24.42, 4.39, 0.11, 15.0],
            &[100.0, 400.0, 36.78, 8.92, 0.02, 30.0],
            &[150.0, 600.0, 47.6, 12.9, 0.05, 45.0],
        ],
    },
    Table {
        source: "Uyar & Fox, Tables 14 to 16",
        labels: &[("site", "UK")],
        columns: WIDE_COLUMNS,
        rows: &[
            &[4.0, 16.0, 56.36, 1.55, 0.0, 1.2],
            &[50.0, 200.0, 65.55, 4.52, 0.0, 15.0],
            &[100.0, 400.0, 76.15, 9.43, 0.0, 30.0],
            &[150.0, 600.0, 86.98, 14.8, 0.0, 45.0],
        ],
    },
];

/// Two brokers, one video meeting; the single queue against the double one.
pub(crate) const DOUBLE_QUEUE: &[Table] = &[
    Table {
        source: "Uyar & Fox, Table 1",
        labels: &[("queuing", "single")],
        columns: QUEUE_COLUMNS,
        rows: &[
            &[400.0, 6.0, 1.0, 15.83, 24.55, 20.20],
            &[400.0, 6.0, 2.0, 16.07, 16.18, 16.13],
        ],
    },
    Table {
        source: "Uyar & Fox, Table 2",
        labels: &[("queuing", "double")],
        columns: QUEUE_COLUMNS,
        rows: &[
            &[400.0, 6.0, 1.0, 16.07, 24.92, 20.52],
            &[400.0, 6.0, 2.0, 1.41, 1.62, 1.52],
        ],
    },
    Table {
        source: "Uyar & Fox, Table 3",
        labels: &[("queuing", "double")],
        columns: QUEUE_COLUMNS,
        rows: &[
            &[200.0, 200.0, 1.0, 7.94, 12.37, 10.16],
            &[200.0, 200.0, 2.0, 8.24, 12.67, 10.45],
        ],
    },
];

/// One video meeting over a chain of four brokers: the last users of each.
pub(crate) const SINGLE_MEETING: &[Table] = &[Table {
    source: "Uyar & Fox, Tables 4 and 5",
    labels: &[],
    columns: &[
        "users_per_broker",
        "users",
        "broker",
        "latency_last_ms",
        "late_percent",
    ],
    rows: &[
        &[200.0, 800.0, 1.0, 12.57, 0.0],
        &[200.0, 800.0, 2.0, 12.93, 0.0],
        &[200.0, 800.0, 3.0, 12.39, 0.0],
        &[200.0, 800.0, 4.0, 12.79, 0.0],
        &[300.0, 1200.0, 1.0, 18.78, 0.29],
        &[300.0, 1200.0, 2.0, 19.25, 0.27],
        &[300.0, 1200.0, 3.0, 17.55, 0.0],
        &[300.0, 1200.0, 4.0, 18.03, 0.02],
        &[400.0, 1600.0, 1.0, 25.47, 1.87],
        &[400.0, 1600.0, 2.0, 26.02, 1.92],
        &[400.0, 1600.0, 3.0, 22.84, 0.73],
        &[400.0, 1600.0, 4.0, 23.55, 0.73],
        &[500.0, 2000.0, 1.0, 32.61, 4.01],
        &[500.0, 2000.0, 2.0, 33.72, 4.43],
        &[500.0, 2000.0, 3.0, 28.53, 2.41],
        &[500.0, 2000.0, 4.0, 29.38, 2.4],
        &[900.0, 3600.0, 1.0, 685.7, 93.5],
        &[900.0, 3600.0, 2.0, 818.9, 93.8],
        &[900.0, 3600.0, 3.0, 104.5, 37.8],
        &[900.0, 3600.0, 4.0, 90.17, 31.3],
    ],
}];

/// Meetings of 20, five users on each of four brokers.
pub(crate) const MEETINGS_OF_20: &[Table] = &[Table {
    source: "Uyar & Fox, Tables 6 to 9",
    labels: &[],
    columns: MEETING_COLUMNS,
    rows: &[
        &[24.0, 480.0, 1.0, 3.3, 1.39, 0.01, 0.0],
        &[24.0, 480.0, 2.0, 4.24, 1.44, 0.0, 0.0],
        &[24.0, 480.0, 3.0, 5.32, 1.65, 0.0, 0.03],
        &[24.0, 480.0, 4.0, 5.87, 1.72, 0.0, 0.03],
        &[48.0, 960.0, 1.0, 2.98, 1.84, 0.0, 0.0],
        &[48.0, 960.0, 2.0, 5.04, 2.53, 0.06, 0.11],
        &[48.0, 960.0, 3.0, 6.9, 2.82, 0.11, 0.09],
        &[48.0, 960.0, 4.0, 8.2, 3.0, 0.22, 0.17],
        &[72.0, 1440.0, 1.0, 4.83, 1.7, 0.02, 0.0],
        &[72.0, 1440.0, 2.0, 13.6, 3.04, 1.2, 0.01],
        &[72.0, 1440.0, 3.0, 17.0, 3.52, 1.6, 0.03],
        &[72.0, 1440.0, 4.0, 17.5, 3.51, 1.63, 0.04],
        &[96.0, 1920.0, 1.0, 5.76, 1.69, 0.13, 0.0],
        &[96.0, 1920.0, 2.0, 25.5, 3.7, 6.41, 0.13],
        &[96.0, 1920.0, 3.0, 52.7, 5.28, 19.6, 2.79],
        &[96.0, 1920.0, 4.0, 47.3, 5.52, 19.6, 0.91],
    ],
}];

/// Meetings of 40, ten users on each of four brokers.
pub(crate) const MEETINGS_OF_40: &[Table] = &[Table {
    source: "Uyar & Fox, Tables 10 to 13",
    labels: &[],
    columns: MEETING_COLUMNS,
    rows: &[
        &[40.0, 1600.0, 1.0, 3.34, 1.15, 0.0, 0.0],
        &[40.0, 1600.0, 2.0, 6.93, 2.2, 0.0, 0.0],
        &[40.0, 1600.0, 3.0, 8.43, 1.99, 0.0, 0.0],
        &[40.0, 1600.0, 4.0, 8.37, 2.1, 0.0, 0.0],
        &[48.0, 1920.0, 1.0, 3.93, 1.47, 0.12, 0.03],
        &[48.0, 1920.0, 2.0, 8.46, 2.12, 0.29, 0.14],
        &[48.0, 1920.0, 3.0, 14.6, 2.57, 0.5, 0.57],
        &[48.0, 1920.0, 4.0, 10.6, 2.27, 0.5, 0.11],
        &[60.0, 2400.0, 1.0, 9.04, 2.42, 0.16, 0.0],
        &[60.0, 2400.0, 2.0, 170.0, 4.62, 1.3, 53.0],
        &[60.0, 2400.0, 3.0, 89.9, 4.81, 2.51, 36.4],
        &[60.0, 2400.0, 4.0, 25.8, 4.6, 2.82, 0.69],
    ],
}];

/// A packet's way over ten brokers: claimed from Table 2, not measured.
pub(crate) const CHAIN_OF_TEN: &[Table] = &[Table {
    source: "Uyar & Fox, section 3.1: about 10 ms over ten brokers, claimed and not measured",
    labels: &[],
    columns: &["brokers", "latency_avg_ms"],
    rows: &[&[10.0, 10.0]],
}];
