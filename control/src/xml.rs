//! Values of JSON as the text of an XML document.

use serde_json::Value;

/// A single value as text: a string without its quotes.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Text as it may stand in an attribute or element; what XML 1.0 (section 2.2) has no place for
/// becomes U+FFFD.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            // Section 3.3.3: in an attribute they would be read as spaces.
            '\n' => out += "&#10;",
            '\t' => out += "&#9;",
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c if c < ' ' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
