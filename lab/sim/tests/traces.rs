//! Traces: the study's are what they were, files survive the way there and back, and what is wrong
//! with one is said.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use sangam_sim::trace::{
    Clocks, Columns, Family, Gaps, Imported, Importing, KNOWN_ROWS, LOST, Overlay, Reader,
    TraceError, import, known_hash,
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
    let how = Importing {
        gaps,
        ..Importing::default()
    };
    let imported = import(text.as_bytes(), how)?;
    let delays: Vec<u32> = imported.chunks().flat_map(|c| c.link(0).to_vec()).collect();
    assert_eq!(imported.overlay.rows, delays.len() as u64);
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

/// Both directions of a link of 20 ms with a small queue, for two minutes, by clocks that differ by
/// `offset_ms` and drift apart by so many millionths.
fn drifting(offset_ms: f64, ppm: f64) -> String {
    let mut text = "sangam-delays 1\nname x\nnode a\nnode b\nlink 0 1\nlink 1 0\n\
                    session 0 1\n\n"
        .to_owned();
    for n in 0..1_200 {
        let at = 100.0 * f64::from(n);
        let queue = f64::from(n * 7_919 % 97) / 20.0;
        let ahead = offset_ms + at * ppm / 1e6;
        let (there, back) = (20.0 + queue + ahead, 20.0 + queue - ahead);
        text += &format!("{at},0,{there}\n{at},1,{back}\n");
    }
    text
}

fn with_clocks(text: &str, clocks: Clocks) -> Result<Imported, TraceError> {
    let how = Importing {
        clocks,
        ..Importing::default()
    };
    import(text.as_bytes(), how)
}

#[test]
fn clocks_that_drift_are_refused_trusted_or_corrected() {
    let text = drifting(0.0, 100.0);
    let refused = with_clocks(&text, Clocks::Refuse).unwrap_err().to_string();
    assert!(
        refused.contains("link a>b") && refused.contains("--clocks correct"),
        "{refused}"
    );
    let last = |imported: &Imported, link: usize| {
        let columns = imported.chunks().last().unwrap();
        *columns.link(link).iter().min().unwrap()
    };
    let trusted = with_clocks(&text, Clocks::Trust).unwrap();
    assert!(trusted.corrections.is_empty());
    assert!((31_000..33_000).contains(&last(&trusted, 0)));
    let corrected = with_clocks(&text, Clocks::Correct).unwrap();
    for link in [0, 1] {
        let least = last(&corrected, link);
        assert!((19_500..21_000).contains(&least), "link {link}: {least}");
    }
    let drifts: Vec<f64> = corrected.corrections.iter().map(|c| c.drift_ppm).collect();
    assert!((drifts[0] - 100.0).abs() < 5.0 && (drifts[1] + 100.0).abs() < 5.0);
}

#[test]
fn an_offset_is_corrected_where_the_link_back_tells_it() {
    let text = drifting(-50.0, 0.0);
    let refused = with_clocks(&text, Clocks::Trust).unwrap_err().to_string();
    assert!(refused.contains("the two clocks differ"), "{refused}");
    let corrected = with_clocks(&text, Clocks::Correct).unwrap();
    let columns = corrected.chunks().next().unwrap();
    for link in [0, 1] {
        let least = *columns.link(link).iter().min().unwrap();
        assert!((19_900..20_100).contains(&least), "link {link}: {least}");
    }
    assert_eq!(corrected.corrections[0].offset_ms, -50.0);
    // One direction alone does not tell.
    let lone = text.replace("link 1 0\n", "");
    let lone: Vec<&str> = lone.lines().filter(|line| !line.contains(",1,")).collect();
    let refused = with_clocks(&lone.join("\n"), Clocks::Correct).unwrap_err();
    assert!(refused.to_string().contains("no link back"), "{refused}");
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
