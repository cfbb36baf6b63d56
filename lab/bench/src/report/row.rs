//! Rows of results: named values in the order they were set.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A whole number.
    Count(u64),
    /// A measured number.
    Number(f64),
    /// A name or remark.
    Text(String),
    /// Yes or no.
    Flag(bool),
}

/// One row of a table; its names are documented in `docs/spec/bench-report.md`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row(Vec<(&'static str, Value)>);

impl Value {
    /// A whole number where it is one, so that `400.0` of a paper's table reads `400`.
    pub(crate) fn number(number: f64) -> Self {
        if number.fract() == 0.0 && (0.0..1e15).contains(&number) {
            Self::Count(number as u64)
        } else {
            Self::Number(number)
        }
    }

    /// The value as a number, for plots.
    pub(crate) fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Count(count) => Some(*count as f64),
            Self::Number(number) => Some(*number),
            Self::Text(_) | Self::Flag(_) => None,
        }
    }

    /// The value as a person reads it: three significant decimals at most.
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Number(number) if number.abs() >= 1000.0 => format!("{number:.0}"),
            Self::Number(number) if number.abs() >= 100.0 => format!("{number:.1}"),
            Self::Number(number) if number.abs() >= 10.0 => format!("{number:.2}"),
            Self::Number(number) => format!("{number:.3}"),
            Self::Text(text) => text.clone(),
            Self::Flag(true) => "yes".to_owned(),
            Self::Flag(false) => "no".to_owned(),
        }
    }
}

impl Row {
    /// Sets a value, replacing one of the same name.
    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<Value>) -> &mut Self {
        let value = value.into();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name, value)),
        }
        self
    }

    /// The same, by value, to build a row in one expression.
    #[must_use]
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.set(name, value);
        self
    }

    /// The value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.0
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// The number of a name.
    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.get(name).and_then(Value::as_f64)
    }

    /// Names and values in order.
    pub(crate) fn cells(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, value)| (*name, value))
    }
}

/// The names of all rows, each once, in the order they first appear.
pub(crate) fn columns(rows: &[Row]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for (name, _) in rows.iter().flat_map(Row::cells) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u64(*count),
            // Six decimals keep nanoseconds of a millisecond and no noise.
            Self::Number(number) => serializer.serialize_f64((number * 1e6).round() / 1e6),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
        }
    }
}

impl From<u64> for Value {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Value {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_order_and_whole_numbers_stay_whole() {
        let row = Row::default()
            .with("users", Value::number(400.0))
            .with("latency_avg_ms", 1.23456789)
            .with("queuing", "double");
        let json = serde_json::to_string(&row).expect("JSON");
        assert_eq!(
            json,
            r#"{"users":400,"latency_avg_ms":1.234568,"queuing":"double"}"#
        );
    }

    #[test]
    fn columns_of_unlike_rows_appear_once() {
        let rows = [
            Row::default().with("a", 1_u64),
            Row::default().with("b", 2_u64).with("a", 3_u64),
        ];
        assert_eq!(columns(&rows), ["a", "b"]);
    }
}
