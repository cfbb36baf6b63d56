//! A broker's own counters, read from `/metrics` (Prometheus text format 0.0.4).

/// All samples of one reading.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics(Vec<Sample>);

#[derive(Clone, Debug)]
struct Sample {
    name: String,
    labels: String,
    value: f64,
}

impl Metrics {
    /// Reads the text; lines that are no samples are left out.
    pub(crate) fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(sample).collect())
    }

    /// The sum of all samples of a name whose labels hold `label`, such as `class="video"`; an
    /// empty label selects all.
    pub(crate) fn sum(&self, name: &str, label: &str) -> f64 {
        let chosen = self
            .0
            .iter()
            .filter(|s| s.name == name && s.labels.contains(label));
        chosen.map(|sample| sample.value).sum()
    }

    /// The value of one label and the sample's value, for each sample of a name.
    pub(crate) fn by_label(&self, name: &str, label: &str) -> Vec<(String, f64)> {
        let start = format!("{label}=\"");
        let value_of = |sample: &Sample| {
            let from = sample.labels.find(&start)? + start.len();
            let length = sample.labels[from..].find('"')?;
            Some((sample.labels[from..from + length].to_owned(), sample.value))
        };
        self.0
            .iter()
            .filter(|sample| sample.name == name)
            .filter_map(value_of)
            .collect()
    }

    /// Every counter less what it was before.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let less = |sample: &Sample| {
            let same = |old: &&Sample| old.name == sample.name && old.labels == sample.labels;
            let old = before.0.iter().find(same).map_or(0.0, |old| old.value);
            Sample {
                value: sample.value - old,
                ..sample.clone()
            }
        };
        Self(self.0.iter().map(less).collect())
    }
}

fn sample(line: &str) -> Option<Sample> {
    if line.starts_with('#') {
        return None;
    }
    let (series, value) = line.trim().rsplit_once(' ')?;
    let (name, labels) = series.split_once('{').unwrap_or((series, ""));
    Some(Sample {
        name: name.trim().to_owned(),
        labels: labels.trim_end_matches('}').to_owned(),
        value: value.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP sangam_drops_total Events dropped.\n\
                        # TYPE sangam_drops_total counter\n\
                        sangam_drops_total{reason=\"flood\",class=\"video\"} 3\n\
                        sangam_drops_total{reason=\"duplicate\",class=\"audio\"} 4\n\
                        sangam_links 2\n";

    #[test]
    fn samples_are_summed_by_label() {
        let metrics = Metrics::parse(TEXT);
        assert_eq!(metrics.sum("sangam_drops_total", ""), 7.0);
        assert_eq!(metrics.sum("sangam_drops_total", "class=\"video\""), 3.0);
        assert_eq!(metrics.sum("sangam_links", ""), 2.0);
        let reasons = metrics.by_label("sangam_drops_total", "reason");
        assert_eq!(
            reasons,
            [("flood".to_owned(), 3.0), ("duplicate".to_owned(), 4.0)]
        );
    }

    #[test]
    fn differences_start_from_zero_where_nothing_was() {
        let now = Metrics::parse(TEXT);
        let before = Metrics::parse("sangam_links 1\n");
        let since = now.since(&before);
        assert_eq!(since.sum("sangam_links", ""), 1.0);
        assert_eq!(since.sum("sangam_drops_total", ""), 7.0);
    }
}
