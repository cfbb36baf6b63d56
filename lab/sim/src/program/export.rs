//! Some sessions of a trace, as emulators take them: delays of each link as text.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use sangam_sim::trace::{Columns, LOST, Overlay, Reader, STEP, TraceError, Writer};
use serde_json::{Value, json};

use super::Failure;

/// A trace of the chosen sessions alone.
const TRACE: &str = "trace";
/// Who is in it, and which file holds which link.
const NETWORK: &str = "network.json";

/// Writes into a folder: [`TRACE`], [`NETWORK`] and a table of delays for each link. `sessions`
/// are counted from 1; none stands for all.
///
/// # Errors
/// If the trace cannot be read, a session is not there, or a file cannot be written.
pub(super) fn export(path: &Path, out: &Path, sessions: &[usize]) -> Result<(), Failure> {
    let wrong = |error: TraceError| Failure(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(|error| wrong(error.into()))?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(wrong)?;
    let overlay = reader.overlay();
    let all: Vec<usize> = (1..=overlay.sessions.len()).collect();
    let chosen = if sessions.is_empty() { &all } else { sessions };
    let chosen: Vec<usize> = chosen.iter().map(|number| number.wrapping_sub(1)).collect();
    let (part, links) = overlay.part(&chosen).map_err(wrong)?;
    let mut whole = Columns::new(overlay.links.len());
    let mut own = Columns::new(links.len());
    fs::create_dir_all(out).map_err(|error| unwritten(out, error))?;
    let mut tables = tables(out, links.len())?;
    let trace = out.join(TRACE);
    let file = File::create(&trace).map_err(|error| unwritten(&trace, error))?;
    let refused = |error: TraceError| Failure(format!("{}: {error}", trace.display()));
    let mut writer = Writer::new(BufWriter::new(file), &part).map_err(refused)?;
    let mut row = 0;
    while reader.chunk(&mut whole).map_err(wrong)? {
        own.select(&whole, &links);
        writer.chunk(&own).map_err(refused)?;
        for (table, delays) in tables.iter_mut().zip(own.links()) {
            write_steps(table, row, delays).map_err(|error| unwritten(out, error))?;
        }
        row += own.rows() as u64;
    }
    writer.finish().map_err(refused)?;
    let flushed = tables.iter_mut().try_for_each(BufWriter::flush);
    flushed.map_err(|error| unwritten(out, error))?;
    let network = out.join(NETWORK);
    fs::write(&network, format!("{:#}\n", described(&part)))
        .map_err(|error| unwritten(&network, error))
}

fn unwritten(path: &Path, error: std::io::Error) -> Failure {
    Failure(format!("{}: {error}", path.display()))
}

fn table(link: usize) -> String {
    format!("link-{link}.csv")
}

fn tables(out: &Path, links: usize) -> Result<Vec<BufWriter<File>>, Failure> {
    let open = |link| {
        let path = out.join(table(link));
        let begun = File::create(&path)
            .map(BufWriter::new)
            .and_then(|mut file| {
                writeln!(file, "seconds,delay_ms,loss_percent")?;
                Ok(file)
            });
        begun.map_err(|error| unwritten(&path, error))
    };
    (0..links).map(open).collect()
}

/// A line for each moment, from that of this number on.
fn write_steps(table: &mut impl Write, first: u64, delays: &[u32]) -> std::io::Result<()> {
    for (row, delay) in (first..).zip(delays) {
        let seconds = row as f64 * STEP.as_secs_f64();
        match *delay {
            LOST => writeln!(table, "{seconds:.2},0,100")?,
            us => writeln!(table, "{seconds:.2},{},0", f64::from(us) / 1e3)?,
        }
    }
    Ok(())
}

fn described(overlay: &Overlay) -> Value {
    let links = overlay.links.iter().enumerate().map(|(number, link)| {
        json!({
            "from": link.from,
            "to": link.to,
            "mean_ms": f64::from(link.mean_us) / 1e3,
            "deviation_ms": f64::from(link.deviation_us) / 1e3,
            "delays": table(number),
        })
    });
    let sessions = overlay
        .sessions
        .iter()
        .map(|session| json!({ "from": session.from, "to": session.to, "relays": session.relays }));
    json!({
        "name": overlay.name,
        "seed": overlay.seed,
        "rows": overlay.rows,
        "trace": TRACE,
        "nodes": overlay.nodes,
        "links": links.collect::<Vec<_>>(),
        "sessions": sessions.collect::<Vec<_>>(),
    })
}
