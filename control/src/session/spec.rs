//! The published XML schema, written from the code.

use std::fmt::Write;

use super::shapes::{COMMANDS, Field, Kind, SENT, Shape, all};
use super::xml::NAMESPACE;

/// The XML schema.
#[must_use]
pub fn xsd() -> String {
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <!-- XGSP documents of Sangam; docs/spec/xgsp.md explains them. -->\n\
         <xs:schema xmlns:xs=\"http://www.w3.org/2001/XMLSchema\" xmlns=\"{NAMESPACE}\"\n    \
         targetNamespace=\"{NAMESPACE}\" elementFormDefault=\"qualified\">\n"
    );
    // What is asked and what is answered may have one name: an element has one type only, so those
    // that are answered as parts alone are types, and no elements.
    let whole = [
        "session",
        "sessions",
        "servers",
        "members",
        "events",
        "invitation",
        "token",
        "done",
        "problem",
        "recordings",
        "work",
    ];
    let answered = all().filter(|shape| whole.contains(&shape.name));
    for shape in answered {
        root(&mut text, (shape, shape.name));
    }
    for shape in SENT {
        root(&mut text, (shape, shape.name));
    }
    for shape in COMMANDS {
        root(&mut text, (shape, &format!("do-{}", shape.name)));
    }
    for shape in all().chain(SENT) {
        complex(&mut text, shape.name, shape);
    }
    for shape in COMMANDS {
        complex(&mut text, &format!("do-{}", shape.name), shape);
    }
    text + "</xs:schema>\n"
}

fn root(text: &mut String, (shape, kind): (&Shape, &str)) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "  <xs:element name=\"{}\" type=\"{kind}\">",
        shape.name
    );
    let _ = writeln!(
        text,
        "    <xs:annotation><xs:documentation>{}</xs:documentation></xs:annotation>\n  \
         </xs:element>",
        shape.about
    );
}

fn complex(text: &mut String, name: &str, shape: &Shape) {
    let _ = writeln!(text, "  <xs:complexType name=\"{name}\">");
    let nested: Vec<_> = shape
        .fields
        .iter()
        .filter(|one| !one.kind.is_single())
        .collect();
    if !nested.is_empty() {
        *text += "    <xs:sequence>\n";
        for field in nested {
            let (element, kind, most) = match field.kind {
                Kind::Texts(each) => (each, "xs:string", "unbounded"),
                Kind::Parts(each, of) => (each, of, "unbounded"),
                Kind::Part(of) => (field.name, of, "1"),
                _ => continue,
            };
            let least = u8::from(field.needed && most == "1");
            let _ = writeln!(
                text,
                "      <xs:element name=\"{element}\" type=\"{kind}\" minOccurs=\"{least}\" \
                 maxOccurs=\"{most}\"/>"
            );
        }
        *text += "    </xs:sequence>\n";
    }
    for field in shape.fields.iter().filter(|one| one.kind.is_single()) {
        attribute(text, field);
    }
    *text += "  </xs:complexType>\n";
}

fn attribute(text: &mut String, field: &Field) {
    let usage = if field.needed { "required" } else { "optional" };
    let head = format!("    <xs:attribute name=\"{}\" use=\"{usage}\"", field.name);
    let kind = match field.kind {
        Kind::Count => "xs:unsignedLong",
        Kind::Number => "xs:double",
        Kind::Truth => "xs:boolean",
        _ => "xs:string",
    };
    let Kind::Word(words) = field.kind else {
        let _ = writeln!(text, "{head} type=\"{kind}\"/>");
        return;
    };
    let _ = writeln!(
        text,
        "{head}>\n      <xs:simpleType><xs:restriction base=\"xs:string\">"
    );
    for word in words {
        let _ = writeln!(text, "        <xs:enumeration value=\"{word}\"/>");
    }
    *text += "      </xs:restriction></xs:simpleType>\n    </xs:attribute>\n";
}
