//! Traces: the study's are what they were, files survive the way there and back, and what is wrong
//! with one is said.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use sangam_sim::trace::{
    Columns, Family, Gaps, KNOWN_ROWS, LOST, Overlay, Reader, TraceError, import, known_hash,
};

const SHORT: u64 = 3_000;

#[test]
fn generated_traces_have_the_committed_hashes() {
    for family in Family::ALL {
        for seed in [1, 2] {
            let hash = family
                .generator(seed, SHORT)
                .write(std::io::sink())
                .unwrap();
            let known = known_hash(family, seed, SHORT);
            assert_eq!(Some(hash), known, "{} {seed}: {hash:016x}", family.name());
        }
    }
}

#[test]
fn every_network_of_the_study_has_a_committed_hash() {
    for family in Family::ALL {
        assert!(
            (1..=10).all(|seed| known_hash(family, seed, KNOWN_ROWS).is_some()),
            "{family:?}"
        );
    }
}

fn file(family: Family, rows: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    family.generator(1, rows).write(&mut bytes).unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Result<(Overlay, Vec<Vec<u32>>, u64), TraceError> {
    let mut reader = Reader::new(bytes)?;
    let overlay = reader.overlay().clone();
    let mut columns = Columns::new(overlay.links.len());
    let mut links = vec![Vec::new(); overlay.links.len()];
    while reader.chunk(&mut columns)? {
        for (link, delays) in links.iter_mut().zip(columns.links()) {
            link.extend_from_slice(delays);
        }
    }
    Ok((overlay, links, reader.hash()))
}

#[test]
fn a_trace_survives_its_file() {
    let made = Family::T5(true).generator(1, 2_500);
    let (overlay, links, hash) = read(&file(Family::T5(true), 2_500)).unwrap();
    assert_eq!(&overlay, made.overlay());
    assert_eq!(hash, made.write(std::io::sink()).unwrap());
    let mut sources = made.sources();
    for (source, link) in sources.iter_mut().zip(&links) {
        let mut delays = vec![0; 2_500];
        source.fill(&mut delays);
        assert_eq!(&delays, link);
    }
}

#[test]
fn a_truncated_file_says_how_far_it_goes() {
    let bytes = file(Family::T4(9), 2_000);
    let error = read(&bytes[..bytes.len() - 20]).unwrap_err();
    assert!(
        matches!(
            error,
            TraceError::Truncated {
                row: 1_000,
                rows: 2_000
            }
        ),
        "{error}"
    );
    let head = &bytes[..40];
    assert!(matches!(read(head).unwrap_err(), TraceError::Line { .. }));
    assert!(matches!(read(b"").unwrap_err(), TraceError::Foreign));
    assert!(matches!(read(b"RIFF\n").unwrap_err(), TraceError::Foreign));
}

#[test]
fn no_flipped_bit_passes() {
    let bytes = file(Family::T4(9), 1_200);
    for place in (0..bytes.len()).step_by(397) {
        let mut wrong = bytes.clone();
        wrong[place] ^= 0x10;
        assert!(read(&wrong).is_err(), "byte {place}");
    }
}

const HEAD: &str = "sangam-delays 1\nname office\nnode a\nnode b\nlink 0 1\nsession 0 1\n\n";

fn imported(body: &str, gaps: Gaps) -> Result<Vec<u32>, TraceError> {
    let text = format!("{HEAD}{body}");
    let (overlay, chunks) = import(text.as_bytes(), gaps)?;
    let delays: Vec<u32> = chunks.flat_map(|c| c.link(0).to_vec()).collect();
    assert_eq!(overlay.rows, delays.len() as u64);
    Ok(delays)
}

#[test]
fn a_recording_becomes_a_trace() {
    let delays = imported(
        "# seconds\n0,0,10\n20,0,12\n30,0,lost\n40,0,8.5\n",
        Gaps::Refuse,
    );
    assert_eq!(delays.unwrap(), [10_000, 11_000, 12_000, LOST, 8_500]);
}

#[test]
fn a_gap_is_refused_held_or_lost() {
    let body = "0,0,10\n100,0,10\n7000,0,20\n";
    let refused = imported(body, Gaps::Refuse).unwrap_err().to_string();
    assert!(
        refused.contains("a>b has no delay between 100 ms and 7000 ms"),
        "{refused}"
    );
    assert_eq!(imported(body, Gaps::Hold).unwrap()[600], 10_000);
    let lost = imported(body, Gaps::Lost).unwrap();
    assert_eq!((lost[10], lost[600], lost[700]), (LOST, LOST, 20_000));
}

#[test]
fn what_cannot_be_is_named_with_its_line() {
    for (body, words) in [
        ("0,0,-3\n", "the two clocks differ"),
        ("0,0,10\n10,0,99999999\n", "at most 10000 ms"),
        ("0,0,nan\n", "at most 10000 ms"),
        ("0,7,1\n", "there is no link `7`"),
        ("10,0,1\n10,0,1\n", "not after the one before it"),
        ("-1,0,1\n", "between 0 and a day"),
        ("0,0\n", "is not `at_ms,link,delay_ms`"),
    ] {
        let error = imported(body, Gaps::Refuse).unwrap_err().to_string();
        assert!(error.contains(words), "{body}: {error}");
        assert!(error.starts_with("line "), "{error}");
    }
    let none = imported("", Gaps::Refuse).unwrap_err().to_string();
    assert!(none.contains("no measurement at all"), "{none}");
}

#[test]
fn a_head_that_does_not_fit_together_is_refused() {
    let head = |lines: &str| {
        let text = format!("sangam-trace 1\nname x\n{lines}\n");
        Reader::new(text.as_bytes())
            .map(drop)
            .unwrap_err()
            .to_string()
    };
    assert!(head("node a\nlink 0 1\nsession 0 1\n").contains("there is no node 1"));
    assert!(head("node a\nnode b\nlink 1 0\nsession 0 1\n").contains("needs a link a>b"));
    assert!(head("node a\nnode b\nlink 0 1\n").contains("0 sessions"));
    assert!(head("step-us 20000\n").contains("line 3"));
    assert!(head("colour red\n").contains("`colour red` is not understood"));
}
