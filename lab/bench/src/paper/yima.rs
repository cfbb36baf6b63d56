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

const COLUMNS: &[&str] = &[
    "viewers",
    "viewer_mbps",
    "net_mbps",
    "read_mbyte_per_s",
    "cpu_percent",
    "rate_changes_per_s",
];
