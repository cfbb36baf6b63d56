//! XGSP documents: the same as the JSON, by the table of [`super::shapes`].
//!
//! What is single is an attribute, what has parts an element, lists are repeated elements. There
//! is no document type, so there are no entities but the five of XML itself, and nothing that
//! grows when it is read. How deep elements are nested the table says; how many there are, and how
//! many attributes each has, is bounded before they are looked at.

use std::fmt::{self, Write};

use quick_xml::XmlVersion;
use quick_xml::events::attributes::Attribute;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
use serde_json::{Map, Value};

use super::shapes::{Field, Kind, Shape, find};
use crate::Reason;
use crate::xml::{escape, plain};

/// The namespace of every element.
pub const NAMESPACE: &str = "urn:sangam:xgsp:1";

/// Attributes of an element that are looked at: no shape has half as many, and the library
/// compares each with all before it.
const ATTRIBUTES_MAX: usize = 64;
/// Elements of a document. The largest that is sent, a recorder's beat, has about 9,000: 500
/// recordings, and 64 replays with 32 people of four elements each.
const ELEMENTS_MAX: usize = 16_384;

/// Why a document is not read, for whoever wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It has a document type.
    DocumentType,
    /// One element has too many attributes.
    Attributes,
    /// It has too many elements.
    Elements,
    /// It is no XML, or no document that is taken.
    Wrong(String),
}

impl Fault {
    /// As what it is counted.
    pub(crate) const fn reason(&self) -> Reason {
        match self {
            Self::DocumentType => Reason::DocumentType,
            Self::Attributes | Self::Elements => Reason::Crowded,
            Self::Wrong(_) => Reason::Malformed,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DocumentType => f.write_str("a document type is not taken: leave out <!DOCTYPE>"),
            Self::Attributes => write!(f, "an element has up to {ATTRIBUTES_MAX} attributes"),
            Self::Elements => write!(f, "a document has up to {ELEMENTS_MAX} elements"),
            Self::Wrong(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Fault {}

impl From<String> for Fault {
    fn from(text: String) -> Self {
        Self::Wrong(text)
    }
}

impl From<&str> for Fault {
    fn from(text: &str) -> Self {
        Self::Wrong(text.to_owned())
    }
}

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
/// What is wrong with it.
pub fn read(shapes: &[&'static Shape], text: &str) -> Result<(&'static str, Value), Fault> {
    let mut source = Source {
        reader: Reader::from_str(text),
        elements: 0,
    };
    loop {
        match source.next()? {
            Event::Decl(_) | Event::Comment(_) => {}
            Event::Text(text) if text.trim().is_empty() => {}
            Event::Start(start) => return root(shapes, &mut source, (&start, false)),
            Event::Empty(start) => return root(shapes, &mut source, (&start, true)),
            Event::DocType(_) => return Err(Fault::DocumentType),
            _ => return Err("this is no XML document with one element".into()),
        }
    }
}

type Start<'a, 'b> = (&'a BytesStart<'b>, bool);

/// A document that is being read.
struct Source<'a> {
    reader: Reader<&'a [u8]>,
    /// So many have begun.
    elements: usize,
}

impl<'a> Source<'a> {
    fn next(&mut self) -> Result<Event<'a>, Fault> {
        let at = self.reader.buffer_position();
        let event = self.reader.read_event();
        let event = event.map_err(|error| format!("this is no XML at byte {at}: {error}"))?;
        if matches!(event, Event::Start(_) | Event::Empty(_)) {
            self.elements += 1;
        }
        match self.elements <= ELEMENTS_MAX {
            true => Ok(event),
            false => Err(Fault::Elements),
        }
    }
}

/// The attributes of an element, if it has no more than any may have.
fn attributes<'a>(start: &'a BytesStart<'_>) -> Result<Vec<Attribute<'a>>, Fault> {
    let few = start.attributes().take(ATTRIBUTES_MAX + 1);
    let few: Result<Vec<_>, _> = few.collect();
    let few = few.map_err(|error| error.to_string())?;
    match few.len() <= ATTRIBUTES_MAX {
        true => Ok(few),
        false => Err(Fault::Attributes),
    }
}

fn root(
    shapes: &[&'static Shape],
    source: &mut Source<'_>,
    (start, empty): Start<'_, '_>,
) -> Result<(&'static str, Value), Fault> {
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
    let spaces = attributes(start)?;
    let mut named = spaces
        .iter()
        .filter(|one| one.key.as_ref().starts_with("xmlns"));
    if !named.any(|one| one.value.as_ref() == NAMESPACE) {
        return Err(format!("the element is not of the namespace {NAMESPACE}").into());
    }
    let value = body(shape, source, (start, empty))?;
    loop {
        match source.next()? {
            Event::Eof => return Ok((shape.name, value)),
            Event::Comment(_) => {}
            Event::Text(text) if text.trim().is_empty() => {}
            _ => return Err("there is something behind the document".into()),
        }
    }
}

/// One element of a shape: its attributes, and what is in it.
fn body(
    shape: &'static Shape,
    source: &mut Source<'_>,
    (start, empty): Start<'_, '_>,
) -> Result<Value, Fault> {
    let mut fields = Map::new();
    for attribute in attributes(start)? {
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
        match source.next()? {
            Event::Start(start) => inner(shape, source, (&start, false), &mut fields)?,
            Event::Empty(start) => inner(shape, source, (&start, true), &mut fields)?,
            Event::End(_) => return Ok(Value::Object(fields)),
            Event::Comment(_) => {}
            Event::Text(text) if text.trim().is_empty() => {}
            _ => return Err(format!("<{}> holds elements only", shape.name).into()),
        }
    }
}

/// An element within one of a shape. How deep they may be nested the table says, not the sender.
fn inner(
    shape: &'static Shape,
    source: &mut Source<'_>,
    (start, empty): Start<'_, '_>,
    fields: &mut Map<String, Value>,
) -> Result<(), Fault> {
    let name = start.local_name();
    let of_name = |field: &&Field| match field.kind {
        Kind::Part(_) => field.name == name.as_ref(),
        Kind::Texts(each) | Kind::Parts(each, _) => each == name.as_ref(),
        _ => false,
    };
    let field = shape.fields.iter().find(of_name);
    let field = field.ok_or_else(|| format!("<{}> has no <{}>", shape.name, name.as_ref()))?;
    let (value, single) = match field.kind {
        Kind::Texts(_) => (Value::String(text_in(source, empty)?), false),
        Kind::Part(of) | Kind::Parts(_, of) => {
            let shape = find(of).ok_or("a part of no shape")?;
            let single = matches!(field.kind, Kind::Part(_));
            (body(shape, source, (start, empty))?, single)
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
fn text_in(source: &mut Source<'_>, empty: bool) -> Result<String, Fault> {
    let mut text = String::new();
    if empty {
        return Ok(text);
    }
    loop {
        match source.next()? {
            Event::Text(part) => text += &part.xml_content(XmlVersion::Implicit1_0),
            Event::CData(part) => text += &part,
            Event::GeneralRef(entity) => text.push(character(&entity)?),
            Event::End(_) => return Ok(text),
            Event::Comment(_) => {}
            _ => return Err("an element that holds text holds nothing else".into()),
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
        Kind::Number => text
            .parse::<f64>()
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

impl Kind {
    /// Whether it is an attribute in XML.
    #[must_use]
    pub const fn is_single(self) -> bool {
        matches!(
            self,
            Self::Text | Self::Count | Self::Number | Self::Truth | Self::Word(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::shapes::{COMMANDS, CREATE};
    use super::*;

    fn refused(text: &str) -> String {
        read(&[&CREATE], text).unwrap_err().to_string()
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

    #[test]
    fn only_so_many_attributes_and_elements_are_looked_at() {
        let create = |inner: &str| format!("<create xmlns='{NAMESPACE}' {inner}");
        let attributes: String = (0..100_000).map(|n| format!("a{n}='' ")).collect();
        let read = |text: &str| super::read(&[&CREATE], text);
        assert_eq!(read(&create(&(attributes + "/>"))), Err(Fault::Attributes));
        let needs = |n| create(&format!(">{}</create>", "<need/>".repeat(n)));
        assert_eq!(read(&needs(ELEMENTS_MAX)), Err(Fault::Elements));
        let many = read(&needs(ELEMENTS_MAX - 1)).unwrap().1;
        assert_eq!(many["needs"].as_array().unwrap().len(), ELEMENTS_MAX - 1);
    }
}
