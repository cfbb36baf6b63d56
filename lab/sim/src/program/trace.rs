//! Traces as files.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter};
use std::path::Path;

use sangam_sim::trace::{self, Columns, Family, Importing, LOST, Reader, TraceError, Writer};

use super::args::{HashArgs, TraceCommand, WriteArgs};
use super::record::Watched;
use super::{Failure, export, note, print};

pub(crate) fn run(command: &TraceCommand) -> Result<(), Failure> {
    match command {
        TraceCommand::List => list(),
        TraceCommand::Write(args) => write(args),
        TraceCommand::Hash(args) => hash(args),
        TraceCommand::Check { file } => check(file),
        TraceCommand::Export {
            file,
            sessions,
            out,
        } => export::export(file, out, sessions),
        TraceCommand::Record {
            file,
            sessions,
            out,
        } => record(file, sessions, out),
        TraceCommand::Import {
            file,
            out,
            gaps,
            clocks,
        } => {
            let (gaps, clocks) = ((*gaps).into(), (*clocks).into());
            import(file, out, Importing { gaps, clocks })
        }
    }
}

fn list() -> Result<(), Failure> {
    let mut all = Family::ALL.into_iter();
    all.try_for_each(|family| print(&format!("{:12} {}", family.name(), family.about())))
}

fn write(args: &WriteArgs) -> Result<(), Failure> {
    let made = args.family.generator(args.seed, args.rows);
    let hash = whole(&args.out, |file| made.write(file))?;
    print(&format!("{} {hash:016x}", args.out.display()))
}

fn hash(args: &HashArgs) -> Result<(), Failure> {
    let all = if args.families.is_empty() {
        &Family::ALL[..]
    } else {
        &args.families
    };
    for family in all {
        for seed in 1..=args.seeds {
            let made = family.generator(seed, args.rows);
            let hash = made
                .write(io::sink())
                .map_err(|error| Failure(error.to_string()))?;
            print(&format!(
                "{} {seed} {} {hash:016x}",
                family.name(),
                args.rows
            ))?;
        }
    }
    Ok(())
}

fn check(path: &Path) -> Result<(), Failure> {
    let wrong = |error: TraceError| Failure(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(|error| wrong(error.into()))?;
    let mut reader = Reader::new(BufReader::new(file)).map_err(wrong)?;
    let mut columns = Columns::new(reader.overlay().links.len());
    let mut lost = 0;
    while reader.chunk(&mut columns).map_err(wrong)? {
        let all = columns.links().flatten();
        lost += all.filter(|delay| **delay == LOST).count();
    }
    let overlay = reader.overlay();
    print(&format!(
        "{}: {} nodes, {} links, {} sessions, {} moments, {lost} lost, hash {:016x}",
        overlay.name,
        overlay.nodes.len(),
        overlay.links.len(),
        overlay.sessions.len(),
        overlay.rows,
        reader.hash()
    ))?;
    let family = Family::from_name(&overlay.name);
    let known = family.and_then(|family| trace::known_hash(family, overlay.seed, overlay.rows));
    match known {
        Some(known) if known != reader.hash() => Err(Failure(format!(
            "{}: this is not the trace of the study, whose hash is {known:016x}",
            path.display()
        ))),
        _ => Ok(()),
    }
}

fn record(path: &Path, sessions: &[String], out: &Path) -> Result<(), Failure> {
    let wrong = |error: io::Error| Failure(format!("{}: {error}", path.display()));
    let watched = if path == Path::new("-") {
        Watched::read(io::stdin().lock())?
    } else {
        Watched::read(BufReader::new(File::open(path).map_err(wrong)?))?
    };
    let text = watched.text(sessions)?;
    let unwritten = |error: io::Error| Failure(format!("{}: {error}", out.display()));
    fs::write(out, text).map_err(unwritten)?;
    print(&out.display().to_string())
}

fn import(path: &Path, out: &Path, how: Importing) -> Result<(), Failure> {
    let wrong = |error: TraceError| Failure(format!("{}: {error}", path.display()));
    let file = File::open(path).map_err(|error| wrong(error.into()))?;
    let imported = trace::import(BufReader::new(file), how).map_err(wrong)?;
    for one in &imported.corrections {
        note(&format!(
            "link {}: clocks that drift by {:+.1} millionths and differ by {:.3} ms were corrected",
            one.link, one.drift_ppm, one.offset_ms
        ));
    }
    let hash = whole(out, |file| {
        let mut writer = Writer::new(file, &imported.overlay)?;
        for columns in imported.chunks() {
            writer.chunk(&columns)?;
        }
        writer.finish()
    })?;
    print(&format!("{} {hash:016x}", out.display()))
}

/// Writes a file beside the wanted one and renames it: there is never half a trace of this name.
fn whole(
    path: &Path,
    write: impl FnOnce(BufWriter<File>) -> Result<u64, TraceError>,
) -> Result<u64, Failure> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let result = File::create(&part)
        .map_err(TraceError::from)
        .and_then(|file| write(BufWriter::new(file)))
        .and_then(|hash| {
            fs::rename(&part, path)?;
            Ok(hash)
        });
    result.map_err(|error| {
        // The error counts; a file that stays is overwritten by the next attempt.
        let _ = fs::remove_file(&part);
        Failure(format!("{}: {error}", path.display()))
    })
}
