//! What the papers measured, as data: the left-hand side of every table the bench prints.

mod broker_network;
mod cloud;
mod voip;
mod yima;

use crate::report::{Row, Value};

pub(crate) use broker_network::{
    CHAIN_OF_TEN, DOUBLE_QUEUE, MEETINGS_OF_20, MEETINGS_OF_40, SINGLE_MEETING, WIDE_AREA,
};
pub(crate) use cloud::{CLOUD_VOIP, LINK_THROUGHPUT, STABILITY};
pub(crate) use voip::{AUDIO_CHAIN, AUDIO_SINGLE_BROKER, MEETINGS_SINGLE_BROKER};
pub(crate) use yima::{VOD_ONE_NODE, VOD_SCALE_UP};

/// Capacities the papers state, in participants that still fared well.
pub(crate) const CAPACITY: &[Table] = &[Table {
    source: "Wu et al., section 4.1; Uyar & Fox, section 5; Fox et al., Table 1",
    labels: &[],
    columns: &[
        "audio_participants",
        "video_participants",
        "cloud_participants",
    ],
    rows: &[&[1400.0, 400.0, 2000.0]],
}];

/// One printed table: named columns of numbers. A value the paper does not give is NaN.
pub(crate) struct Table {
    /// Paper, section and table.
    pub(crate) source: &'static str,
    /// What holds for every row, such as the kind of queuing.
    pub(crate) labels: &'static [(&'static str, &'static str)],
    /// Names as in the report's rows (docs/spec/bench-report.md).
    pub(crate) columns: &'static [&'static str],
    /// One number per column.
    pub(crate) rows: &'static [&'static [f64]],
}

/// The rows of all tables, each with its source.
pub(crate) fn rows(tables: &[Table]) -> Vec<Row> {
    tables.iter().flat_map(Table::to_rows).collect()
}

impl Table {
    fn to_rows(&self) -> Vec<Row> {
        self.rows
            .iter()
            .map(|numbers| self.to_row(numbers))
            .collect()
    }

    fn to_row(&self, numbers: &[f64]) -> Row {
        let mut row = Row::default();
        for (name, text) in self.labels {
            row.set(name, *text);
        }
        for (name, number) in self.columns.iter().zip(numbers) {
            if !number.is_nan() {
                row.set(name, Value::number(*number));
            }
        }
        row.set("source", self.source);
        row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_one_number_per_column() {
        let all = [
            AUDIO_SINGLE_BROKER,
            MEETINGS_SINGLE_BROKER,
            AUDIO_CHAIN,
            DOUBLE_QUEUE,
            SINGLE_MEETING,
            MEETINGS_OF_20,
            MEETINGS_OF_40,
            CHAIN_OF_TEN,
            CLOUD_VOIP,
            WIDE_AREA,
            STABILITY,
            LINK_THROUGHPUT,
            CAPACITY,
            VOD_ONE_NODE,
            VOD_SCALE_UP,
        ];
        for table in all.into_iter().flatten() {
            assert!(!table.source.is_empty());
            for row in table.rows {
                assert_eq!(row.len(), table.columns.len(), "{}", table.source);
            }
        }
    }
}
