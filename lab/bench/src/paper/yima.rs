//! Zimmermann, Shahabi, Fu, Yao: Scalability evaluation of the Yima streaming media architecture.

use super::Table;

/// One server and DVD viewers: what the text says of Figure 3. The other points of its curves are
/// not printed as numbers.
pub(crate) const VOD_ONE_NODE: &[Table] = &[
    Table {
        source: "Zimmermann et al., Figure 3, left column (100 Mb/s): the most viewers",
        labels: &[("network", "100 Mb/s")],
        columns: COLUMNS,
        rows: &[&[12.0, 5.33, 68.0, 8.5, 40.0, 1.0]],
    },
    Table {
        source: "Zimmermann et al., Figure 3, left column: beyond them",
        labels: &[("network", "100 Mb/s")],
        columns: COLUMNS,
        rows: &[&[14.0, f64::NAN, 68.0, 8.5, 40.0, 2.0]],
    },
    Table {
        source: "Zimmermann et al., Figure 3, right column (1 Gb/s): the most viewers",
        labels: &[("network", "1 Gb/s")],
        columns: COLUMNS,
        rows: &[&[35.0, 5.33, 200.0, 25.0, 80.0, 1.0]],
    },
    Table {
        source: "Zimmermann et al., Figure 3, right column: beyond them",
        labels: &[("network", "1 Gb/s")],
        columns: COLUMNS,
        rows: &[&[40.0, f64::NAN, 200.0, 25.0, 80.0, 5.0]],
    },
];

/// The most viewers of one, two and four servers: what the text says of Figure 4, and of Figure 3
/// for the first.
pub(crate) const VOD_SCALE_UP: &[Table] = &[Table {
    source: "Zimmermann et al., Figures 3 and 4: the most viewers",
    labels: &[("network", "100 Mb/s")],
    columns: &[
        "nodes",
        "viewers",
        "viewer_mbps",
        "net_mbps",
        "read_mbyte_per_s",
        "node_cpu_percent",
        "rate_changes_per_s",
    ],
    rows: &[
        &[1.0, 12.0, 5.33, 68.0, 8.5, 40.0, 1.0],
        &[2.0, 25.0, 5.33, 136.0, 17.0, 38.0, 1.0],
        &[4.0, 48.0, 5.33, f64::NAN, 32.0, 40.0, 2.5],
    ],
}];

const COLUMNS: &[&str] = &[
    "viewers",
    "viewer_mbps",
    "net_mbps",
    "read_mbyte_per_s",
    "cpu_percent",
    "rate_changes_per_s",
];
