//! The merged view as an XML document.
//!
//! It has the fields of the JSON under the same names: what is single is an attribute, what has
//! parts an element, lists are repeated elements in the singular. `docs/spec/monitor.xsd` is its
//! schema.

use std::fmt::Write;

use serde_json::Value;

use super::network::Network;
use crate::xml::{escape, plain};

/// The namespace of every element.
pub const NAMESPACE: &str = "urn:sangam:network:1";
/// The published schema.
pub const XSD: &str = include_str!("../../../docs/spec/monitor.xsd");

/// Lists, and what one of their items is called.
const SINGULAR: [(&str, &str); 6] = [
    ("brokers", "broker"),
    ("links", "link"),
    ("drops", "drop"),
    ("interest", "filter"),
    ("origins", "stream"),
    ("planned", "way"),
];

/// The document.
#[must_use]
pub fn document(network: &Network) -> String {
    let value = serde_json::to_value(network);
    let value = value.expect("a view holds only texts, numbers and lists");
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    element(&mut text, (0, "network"), &value);
    text
}

/// Writes an element of this depth and name.
fn element(text: &mut String, (depth, name): (usize, &str), value: &Value) {
    let indent = "  ".repeat(depth);
    // Writing to a String cannot fail.
    let _ = write!(text, "{indent}<{name}");
    if depth == 0 {
        let _ = write!(text, " xmlns=\"{NAMESPACE}\"");
    }
    let Value::Object(fields) = value else {
        let _ = writeln!(text, ">{}</{name}>", escape(&plain(value)));
        return;
    };
    // Sorted here, as the order of a map is a matter of its library's features.
    let mut fields: Vec<_> = fields
        .iter()
        .filter(|(_, value)| !value.is_null())
        .collect();
    fields.sort_by_key(|(name, _)| *name);
    let nested = |value: &Value| value.is_object() || value.is_array();
    for (field, value) in fields.iter().filter(|(_, value)| !nested(value)) {
        let _ = write!(text, " {field}=\"{}\"", escape(&plain(value)));
    }
    let mut inner = fields.iter().filter(|(_, value)| nested(value)).peekable();
    if inner.peek().is_none() {
        *text += "/>\n";
        return;
    }
    *text += ">\n";
    for (field, value) in inner {
        match value {
            Value::Array(items) => {
                for item in items {
                    element(text, (depth + 1, singular(field)), item);
                }
            }
            _ => element(text, (depth + 1, field), value),
        }
    }
    let _ = writeln!(text, "{indent}</{name}>");
}

fn singular(list: &str) -> &str {
    let known = SINGULAR.iter().find(|(many, _)| *many == list);
    known.map_or(list, |(_, one)| *one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::{BrokerReport, BrokerView, LinkReport};

    #[test]
    fn single_values_are_attributes_and_lists_are_elements() {
        let report = BrokerReport {
            name: "a<b>&\"c\"\u{1}".to_owned(),
            interest: vec!["demo/#".to_owned()],
            links: vec![LinkReport {
                rtt_us: Some(1_200),
                ..LinkReport::default()
            }],
            ..BrokerReport::default()
        };
        let view = BrokerView {
            report,
            ..BrokerView::default()
        };
        let text = document(&Network::new("here", 7, vec![view]));
        for part in [
            "<network xmlns=\"urn:sangam:network:1\" aggregator=\"here\" at_unix_ms=\"7\"",
            " name=\"a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}\"",
            "    <filter>demo/#</filter>\n",
            "    <link address=\"\" rtt_us=\"1200\" transport=\"\" up=\"false\"/>\n",
            "</network>\n",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
    }
}
