//! Evaluates one XPath query over the network's document, and ends.
//!
//! `sangam` starts it for each query, as the XPath library has no limit of its own: here the
//! kernel sets them. The task comes on standard input ([`Order`] as a line of JSON, then the
//! document), the answer ([`Said`]) leaves on standard output.

use std::io::{BufRead, Read, Write};

use rustix::process::{Resource, Rlimit, setrlimit};
use sangam_control::monitor::xml::NAMESPACE;
use sangam_control::monitor::xpath::{Found, Order, Said};
use xee_xpath::context::StaticContextBuilder;
use xee_xpath::error::{Error, ErrorValue};
use xee_xpath::{Documents, Item, Queries, Query};

/// Bytes of address space: the program's own, the document as a tree, and room to work.
const MEMORY: u64 = 512 << 20;
/// Seconds of processor time.
const CPU_S: u64 = 2;

fn main() -> std::io::Result<()> {
    limit()?;
    let mut input = std::io::stdin().lock();
    let mut order = String::new();
    input.read_line(&mut order)?;
    let order: Order = serde_json::from_str(&order)?;
    let mut document = String::new();
    input.read_to_string(&mut document)?;
    let said = evaluate(&order, &document).unwrap_or_else(|error| Said::Error {
        error: error.error.message().to_owned(),
        code: error.error.code(),
        at: error.span.map(|span| {
            let range = span.range();
            (range.start, range.end)
        }),
    });
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &said)?;
    out.flush()
}

/// No more memory and time than a query may take; no file, no other process, no core dump.
fn limit() -> std::io::Result<()> {
    let limits = [
        (Resource::As, MEMORY),
        (Resource::Cpu, CPU_S),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        // What is open stays open; nothing else can be.
        (Resource::Nofile, 0),
        (Resource::Nproc, 0),
    ];
    for (resource, most) in limits {
        let (current, maximum) = (Some(most), Some(most));
        setrlimit(resource, Rlimit { current, maximum })?;
    }
    Ok(())
}

fn evaluate(order: &Order, document: &str) -> Result<Said, Error> {
    let mut documents = Documents::new();
    let document = documents.add_string_without_uri(document);
    let document = document.map_err(|_| ErrorValue::FODC0002)?;
    let mut context = StaticContextBuilder::default();
    // So that `//link` means ours.
    context.default_element_namespace(NAMESPACE);
    let queries = Queries::new(context);
    let query = queries.sequence(&order.query)?;
    let sequence = query.execute(&mut documents, document)?;
    let (mut items, mut len) = (Vec::new(), 0);
    for item in sequence.iter() {
        let found = found(&documents, &item)?;
        let (Found::Xml(text) | Found::Value(text)) = &found;
        // What JSON escapes takes two bytes; the tags around an item take some, too.
        len += text.len() + text.matches(['"', '\\', '\n']).count() + 16;
        if len > order.answer_len_max {
            break;
        }
        items.push(found);
    }
    let total = sequence.len();
    Ok(Said::Answer { items, total })
}

fn found(documents: &Documents, item: &Item) -> Result<Found, Error> {
    let xot = documents.xot();
    if let Ok(node) = item.to_node()
        && (xot.is_element(node) || xot.is_document(node))
    {
        let text = xot.to_string(node).unwrap_or_default();
        return Ok(Found::Xml(text));
    }
    Ok(Found::Value(item.string_value(xot)?))
}
