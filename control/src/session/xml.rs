//! XGSP documents: the same as the JSON, by the table of [`super::shapes`].
//!
//! What is single is an attribute, what has parts an element, lists are repeated elements. There
//! is no document type, so there are no entities but the five of XML itself, and nothing that
//! grows when it is read.

use std::fmt::Write;

use quick_xml::XmlVersion;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
use serde_json::{Map, Value};

use super::shapes::{Field, Kind, Shape, find};
use crate::xml::{escape, plain};

/// The namespace of every element.
pub const NAMESPACE: &str = "urn:sangam:xgsp:1";

/// Writes a document.
#[must_use]
pub fn write(shape: &Shape, value: &Value) -> String {
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    element(&mut text, (0, shape.name), (shape, value));
    text
}

fn element(text: &mut String, (depth, name): (usize, &str), (shape, value): (&Shape, &Value)) {
    let indent = "  ".repeat(depth);
    // Writing to a String cannot fail.
    let _ = write!(text, "{indent}<{name}");
    if depth == 0 {
        let _ = write!(text, " xmlns=\"{NAMESPACE}\"");
    }
    let given = |field: &&Field| value.get(field.name).is_some_and(|value| !value.is_null());
    let (single, nested): (Vec<&Field>, Vec<&Field>) =
        (shape.fields.iter().filter(given)).partition(|field| field.kind.is_single());
    for field in single {
        let _ = write!(
            text,
            " {}=\"{}\"",
            field.name,
            escape(&plain(&value[field.name]))
        );
    }
    let is_empty = |field: &Field| value[field.name].as_array().is_some_and(Vec::is_empty);
    if nested.iter().all(|field| is_empty(field)) {
        *text += "/>\n";
        return;
    }
    *text += ">\n";
    for field in nested {
        let inner = &value[field.name];
        let items = inner.as_array().map_or(&[][..], Vec::as_slice);
        match field.kind {
            Kind::Part(of) => child(text, (depth + 1, field.name), (of, inner)),
            Kind::Parts(each, of) => {
                items
                    .iter()
                    .for_each(|item| child(text, (depth + 1, each), (of, item)));
            }
            Kind::Texts(each) => {
                for item in items {
                    let item = escape(&plain(item));
                    let _ = writeln!(text, "{indent}  <{each}>{item}</{each}>");
                }
            }
            _ => {}
        }
    }
    let _ = writeln!(text, "{indent}</{name}>");
}

fn child(text: &mut String, place: (usize, &str), (of, value): (&str, &Value)) {
    if let Some(shape) = find(of) {
        element(text, place, (shape, value));
    }
}

/// Reads a document of one of these shapes: its name, and the JSON that says the same.
///
/// # Errors
/// What is wrong with it, for whoever wrote it.
pub fn read(shapes: &[&'static Shape], text: &str) -> Result<(&'static str, Value), String> {
    let mut reader = Reader::from_str(text);
    loop {
        match next(&mut reader)? {
            Event::Decl(_) | Event::Comment(_) => {}
            Event::Text(text) if text.trim().is_empty() => {}
            Event::Start(start) => return root(shapes, &mut reader, (&start, false)),
            Event::Empty(start) => return root(shapes, &mut reader, (&start, true)),
            Event::DocType(_) => {
                return Err("a document type is not taken: leave out <!DOCTYPE>".to_owned());
            }
            _ => return Err("this is no XML document with one element".to_owned()),
        }
    }
}

type Start<'a, 'b> = (&'a BytesStart<'b>, bool);

fn root(
    shapes: &[&'static Shape],
    reader: &mut Reader<&[u8]>,
    (start, empty): Start<'_, '_>,
) -> Result<(&'static str, Value), String> {
    let name = start.local_name();
    let shape = shapes.iter().find(|shape| shape.name == name.as_ref());
    let shape = shape.ok_or_else(|| {
        let known: Vec<_> = shapes.iter().map(|shape| shape.name).collect();
        format!(
            "<{}> is not taken here, but {}",
            name.as_ref(),
            known.join(", ")
        )
    })?;
    let spaces: Result<Vec<_>, _> = start.attributes().collect();
    let spaces = spaces.map_err(|error| error.to_string())?;
    let mut named = spaces
        .iter()
        .filter(|one| one.key.as_ref().starts_with("xmlns"));
    if !named.any(|one| one.value.as_ref() == NAMESPACE) {
        return Err(format!("the element is not of the namespace {NAMESPACE}"));
    }
    let value = body(shape, reader, (start, empty))?;
    loop {
        match next(reader)? {
            Event::Eof => return Ok((shape.name, value)),
            Event::Comment(_) => {}
            Event::Text(text) if text.trim().is_empty() => {}
            _ => return Err("there is something behind the document".to_owned()),
        }
    }
}

/// One element of a shape: its attributes, and what is in it.
fn body(
    shape: &'static Shape,
    reader: &mut Reader<&[u8]>,
    (start, empty): Start<'_, '_>,
) -> Result<Value, String> {
    let mut fields = Map::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let name = attribute.key.as_ref();
        if name == "xmlns" || name.starts_with("xmlns:") {
            continue;
        }
        let field = shape.fields.iter().find(|field| field.name == name);
        let field = field.filter(|field| field.kind.is_single());
        let field = field.ok_or_else(|| format!("<{}> has no attribute {name:?}", shape.name))?;
        let text = attribute.normalized_value(XmlVersion::Implicit1_0);
        let text = text.map_err(|error| error.to_string())?;
        fields.insert(field.name.to_owned(), single(field, &text)?);
    }
    if empty {
        return Ok(Value::Object(fields));
    }
    loop {
        match next(reader)? {
            Event::Start(start) => inner(shape, reader, (&start, false), &mut fields)?,
            Event::Empty(start) => inner(shape, reader, (&start, true), &mut fields)?,
            Event::End(_) => return Ok(Value::Object(fields)),
            Event::Comment(_) => {}
            Event::Text(text) if text.trim().is_empty() => {}
            _ => return Err(format!("<{}> holds elements only", shape.name)),
        }
    }
}

/// An element within one of a shape. How deep they may be nested the table says, not the sender.
fn inner(
    shape: &'static Shape,
    reader: &mut Reader<&[u8]>,
    (start, empty): Start<'_, '_>,
    fields: &mut Map<String, Value>,
) -> Result<(), String> {
    let name = start.local_name();
    let of_name = |field: &&Field| match field.kind {
        Kind::Part(_) => field.name == name.as_ref(),
        Kind::Texts(each) | Kind::Parts(each, _) => each == name.as_ref(),
        _ => false,
    };
    let field = shape.fields.iter().find(of_name);
    let field = field.ok_or_else(|| format!("<{}> has no <{}>", shape.name, name.as_ref()))?;
    let (value, single) = match field.kind {
        Kind::Texts(_) => (Value::String(text_in(reader, empty)?), false),
        Kind::Part(of) | Kind::Parts(_, of) => {
            let shape = find(of).ok_or("a part of no shape")?;
            let single = matches!(field.kind, Kind::Part(_));
            (body(shape, reader, (start, empty))?, single)
        }
        _ => return Ok(()),
    };
    if single {
        fields.insert(field.name.to_owned(), value);
        return Ok(());
    }
    let list = fields
        .entry(field.name)
        .or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(list) = list {
        list.push(value);
    }
    Ok(())
}

/// The text of an element that holds nothing else.
fn text_in(reader: &mut Reader<&[u8]>, empty: bool) -> Result<String, String> {
    let mut text = String::new();
    if empty {
        return Ok(text);
    }
    loop {
        match next(reader)? {
            Event::Text(part) => text += &part.xml_content(XmlVersion::Implicit1_0),
            Event::CData(part) => text += &part,
            Event::GeneralRef(entity) => text.push(character(&entity)?),
            Event::End(_) => return Ok(text),
            Event::Comment(_) => {}
            _ => return Err("an element that holds text holds nothing else".to_owned()),
        }
    }
}

/// One of the five entities of XML itself, or a character by its number.
fn character(entity: &str) -> Result<char, String> {
    let number = match entity.strip_prefix('#') {
        Some(hex) if hex.starts_with('x') => u32::from_str_radix(&hex[1..], 16).ok(),
        Some(decimal) => decimal.parse().ok(),
        None => {
            let known = [
                ("lt", '<'),
                ("gt", '>'),
                ("amp", '&'),
                ("quot", '"'),
                ("apos", '\''),
            ];
            let found = known.iter().find(|(name, _)| *name == entity);
            found.map(|(_, c)| u32::from(*c))
        }
    };
    let found = number.and_then(char::from_u32);
    found.ok_or_else(|| format!("&{entity}; is no entity of XML"))
}

fn single(field: &Field, text: &str) -> Result<Value, String> {
    let wrong = |what: &str| format!("{}={text:?} is no {what}", field.name);
    match field.kind {
        Kind::Count => text
            .parse::<u64>()
            .map(Value::from)
            .map_err(|_| wrong("number")),
        Kind::Truth => match text {
            "true" | "1" => Ok(Value::Bool(true)),
            "false" | "0" => Ok(Value::Bool(false)),
            _ => Err(wrong("truth: write true or false")),
        },
        _ => Ok(Value::String(text.to_owned())),
    }
}

fn next<'a>(reader: &mut Reader<&'a [u8]>) -> Result<Event<'a>, String> {
    let at = reader.buffer_position();
    let event = reader.read_event();
    event.map_err(|error| format!("this is no XML at byte {at}: {error}"))
}

impl Kind {
    /// Whether it is an attribute in XML.
    #[must_use]
    pub const fn is_single(self) -> bool {
        matches!(self, Self::Text | Self::Count | Self::Truth | Self::Word(_))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::shapes::{COMMANDS, CREATE};
    use super::*;

    fn refused(text: &str) -> String {
        read(&[&CREATE], text).unwrap_err()
    }

    #[test]
    fn a_document_says_the_same_in_both_forms() {
        let value = json!({
            "tenant": "acme", "name": "weekly", "title": "Ein <Titel> & \"mehr\"\nשלום",
            "start_ms": 7, "lobby": true, "needs": ["mixer", "a <b> & c"],
        });
        let text = write(&CREATE, &value);
        assert_eq!(read(&[&CREATE], &text), Ok(("create", value)), "{text}");
    }

    #[test]
    fn a_command_is_an_element_of_its_name() {
        let text = format!("<grant xmlns='{NAMESPACE}' medium='audio' member='m3'/>");
        let all: Vec<_> = COMMANDS.iter().collect();
        let (name, value) = read(&all, &text).unwrap();
        assert_eq!(
            (name, value),
            ("grant", json!({"medium": "audio", "member": "m3"}))
        );
    }

    #[test]
    fn bombs_and_nonsense_are_refused_with_what_is_wrong() {
        let bomb = "<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY a \"aaaa\">\
                    <!ENTITY b \"&a;&a;\">]><create/>";
        let create = |inner: &str| format!("<create xmlns='{NAMESPACE}' {inner}");
        for (text, word) in [
            (bomb.to_owned(), "document type"),
            (create("title='&b;'/>"), "b"),
            (create("><need>&b;</need></create>"), "&b;"),
            (create("colour='red'/>"), "colour"),
            (create("lobby='perhaps'/>"), "truth"),
            (create("start_ms='-1'/>"), "number"),
            (create("><deep/></create>"), "<deep>"),
            (create("/><create/>"), "behind"),
            (create(">"), "element"),
            ("<create/>".to_owned(), NAMESPACE),
            ("<grant/>".to_owned(), "create"),
            ("no XML".to_owned(), "element"),
            (String::new(), "element"),
        ] {
            let said = refused(&text);
            assert!(said.contains(word), "{text}: {said}");
        }
        let deep = "<need>".repeat(10_000);
        assert!(refused(&create(&format!(">{deep}"))).contains("nothing else"));
    }
}
