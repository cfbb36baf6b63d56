//! What a report is made of, whoever draws it.

/// A chapter.
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// Its heading.
    pub title: String,
    /// Plain words, a paragraph each.
    pub words: Vec<String>,
    /// Pictures.
    pub figures: Vec<Figure>,
    /// Tables.
    pub tables: Vec<Table>,
}

/// How points of a figure are drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// A line through them.
    #[default]
    Lines,
    /// A dot each.
    Dots,
    /// A bar each, side by side in groups of these names; a point's x is its group's number.
    Bars(Vec<String>),
}

/// Lines in a plane.
#[derive(Clone, Debug, Default)]
pub struct Figure {
    /// Its file's name, without the ending.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// What runs to the right.
    pub x: String,
    /// What runs up.
    pub y: String,
    /// How they are drawn.
    pub marks: Marks,
    /// The lines.
    pub lines: Vec<Line>,
}

/// A line of a figure.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// What it shows.
    pub label: String,
    /// Points by rising x.
    pub points: Vec<(f64, f64)>,
}

/// Rows and columns of text.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its file's name, without the ending.
    pub name: String,
    /// Its heading.
    pub title: String,
    /// Names of columns, units in them.
    pub columns: Vec<String>,
    /// As many fields each as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(name: &str, title: &str, columns: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// As CSV (RFC 4180).
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut out = String::new();
        for row in core::iter::once(&self.columns).chain(&self.rows) {
            let fields: Vec<String> = row.iter().map(|field| quoted(field)).collect();
            out += &fields.join(",");
            out += "\r\n";
        }
        out
    }
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// A curve with at most so many points: of a long one every n-th and the last.
pub(super) fn thin(points: Vec<(f64, f64)>, most: usize) -> Vec<(f64, f64)> {
    let step = points.len().div_ceil(most.max(1)).max(1);
    let last = points.len().saturating_sub(1);
    let kept = points.into_iter().enumerate();
    let kept = kept.filter(|(number, _)| number % step == 0 || *number == last);
    kept.map(|(_, point)| point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_quotes_what_it_must() {
        let mut table = Table::new("t", "T", &["a", "b, ms"]);
        table.rows.push(vec!["x\"y".to_owned(), "1".to_owned()]);
        assert_eq!(table.to_csv(), "a,\"b, ms\"\r\n\"x\"\"y\",1\r\n");
    }

    #[test]
    fn a_thin_curve_keeps_both_ends() {
        let points: Vec<(f64, f64)> = (0..1_000).map(|n| (f64::from(n), 0.0)).collect();
        let kept = thin(points, 100);
        assert!(kept.len() <= 101);
        assert_eq!((kept[0].0, kept[kept.len() - 1].0), (0.0, 999.0));
    }
}
