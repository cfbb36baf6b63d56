//! `sangam archive add`.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use sangam_archive::blocks::Layout;
use sangam_archive::films::{DATAGRAM, Film, is_stream};
use tempfile::TempDir;

use super::list::{film_to_json, layout};
use super::progress::Progress;
use super::{failure, films};
use crate::cli::{AddArgs, Place};
use crate::exit::{Exit, Failure, io};
use crate::ffmpeg::{probe, remux};
use crate::output;
use crate::stop::Stop;

/// Puts a film onto the disks.
pub(super) fn run(place: &Place, args: &AddArgs, as_json: bool) -> Result<(), Failure> {
    let stop = Stop::on_signals().map_err(io("cannot wait for signals"))?;
    let stem = || {
        let stem = args.file.file_stem().and_then(|stem| stem.to_str());
        stem.map(str::to_owned)
    };
    let name = args.name.clone().or_else(stem);
    let name = name.ok_or_else(|| {
        let message = format!("{}: no name for a film", args.file.display());
        Failure::new(Exit::Usage, message).hint("give it one by --name")
    })?;
    if super::matching(place, &name)?
        .iter()
        .any(|one| one.name == name)
    {
        let message = format!("there is a recording {name:?} already");
        return Err(Failure::new(Exit::Failure, message).hint("give it another one by --name"));
    }
    let file = open(&args.file)?;
    let film = match file {
        Some(file) => put(place, args, (&name, file), &stop),
        None => {
            // Beside the blocks: there is room for films.
            std::fs::create_dir_all(&place.folder).map_err(io(place.folder.display()))?;
            let folder = TempDir::with_prefix_in("adding-", &place.folder);
            let folder = folder.map_err(io(place.folder.display()))?;
            let out = folder.path().join("film.ts");
            convert(&args.file, &out, &stop)?;
            let file = File::open(&out).map_err(io(out.display()))?;
            put(place, args, (&name, file), &stop)
        }
    }?;
    if as_json {
        output::json_line(&film_to_json(&film.summary()));
    } else {
        show(&film);
    }
    Ok(())
}

/// The file, if it is a transport stream.
fn open(path: &Path) -> Result<Option<File>, Failure> {
    let failed = || io(path.display());
    let mut file = File::open(path).map_err(failed())?;
    let mut begin = Vec::new();
    let read = file.by_ref().take(DATAGRAM as u64).read_to_end(&mut begin);
    read.map_err(failed())?;
    if !is_stream(&begin) {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(0)).map_err(failed())?;
    Ok(Some(file))
}

fn convert(file: &Path, out: &Path, stop: &Stop) -> Result<(), Failure> {
    let found = probe(file, false)?;
    let len = file.metadata().map_err(io(file.display()))?.len();
    let mut progress = Progress::new("putting it into a transport stream", len);
    remux((file, out), &found, &mut |written| {
        progress.at(written);
        !stop.is_set()
    })
}

fn put(
    place: &Place,
    args: &AddArgs,
    (name, file): (&str, File),
    stop: &Stop,
) -> Result<Film, Failure> {
    let len = file.metadata().map_err(io(args.file.display()))?.len();
    let copies = args.copies.map(Layout::Copies);
    let layout = copies.or(args.parity.map(Layout::Parity));
    let mut progress = Progress::new("adding", len);
    let source = Stoppable {
        inner: BufReader::new(file),
        stop: stop.clone(),
    };
    let films = films(place);
    let added = films.add((name, layout), (source, len), |read| progress.at(read));
    drop(progress);
    added.map_err(|error| failure(&error))
}

/// A source that fails when it is to stop: what was put is removed.
struct Stoppable {
    inner: BufReader<File>,
    stop: Stop,
}

impl Read for Stoppable {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        match self.stop.is_set() {
            true => Err(std::io::Error::other("stopped")),
            false => self.inner.read(out),
        }
    }
}

fn show(film: &Film) {
    let object = &film.object;
    output::line(&format!(
        "added {} ({:016x}): {:.1} s, {:.1} MiB in {} blocks, {}, {} places to begin",
        object.name,
        object.id,
        film.index.length().as_secs_f64(),
        object.bytes as f64 / f64::from(1 << 20),
        object.blocks(),
        layout(object.layout),
        film.index.starts()
    ));
    if film.index.broken > 0 {
        output::line(&format!(
            "{} of its {} packets are broken: players pass over them",
            film.index.broken, film.index.packets
        ));
    }
}
