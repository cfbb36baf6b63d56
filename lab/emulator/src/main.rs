//! `sangam-emulator SITE...`: a bad network to try things in by hand.
//!
//! Prints how to run a command inside each site, then reads lines: `A B QUALITY` sets both
//! directions between two sites, `A > B QUALITY` one, `A B` tells what the path did so far. Ends
//! with its input, and everything it made with it.

use std::fmt::Write as _;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use sangam_emulator::{Counters, Emulator, Error, Quality};

const USAGE: &str = "usage: sangam-emulator SITE SITE...\n\
                     then lines such as `A B delay=45ms,loss=1%`, `A > B cut`, `A B`";

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    if names.len() < 2 || names.iter().any(|name| name.starts_with('-')) {
        complain(USAGE);
        return ExitCode::from(2);
    }
    match run(&names) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn run(names: &[String]) -> Result<(), Error> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let network = Emulator::new(&names, 1)?;
    for site in network.sites() {
        let (v4, v6, path) = (site.v4(), site.v6(), site.path());
        let name = site.name();
        say(&format!(
            "{name}: {v4} {v6} nsenter --net={} COMMAND",
            path.display()
        ));
    }
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        match obey(&network, &names, &line) {
            Ok(text) => say(&text),
            Err(error @ Error::Gone) => return Err(error),
            Err(error) => complain(&error.to_string()),
        }
    }
    Ok(())
}

fn obey(network: &Emulator, names: &[&str], line: &str) -> Result<String, Error> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |name: &str| {
        let found = names.iter().position(|known| *known == name);
        found.ok_or_else(|| Error::Property(name.to_owned()))
    };
    let control = network.control();
    match words[..] {
        [] => {}
        [a, b] => return Ok(told(&control.counters(number(a)?, number(b)?)?)),
        [a, ">", b, quality] => control.set(number(a)?, number(b)?, quality.parse()?)?,
        [a, b, quality] => {
            let quality: Quality = quality.parse()?;
            control.set_both(number(a)?, number(b)?, &quality)?;
        }
        _ => return Err(Error::Property(line.to_owned())),
    }
    Ok("ok".to_owned())
}

fn told(counters: &Counters) -> String {
    let mut text = format!("packets {} arrived {}", counters.packets, counters.arrived);
    for (name, count) in [
        ("lost", counters.lost),
        ("queue_full", counters.queue_full),
        ("too_big", counters.too_big),
        ("blackholed", counters.blackholed),
        ("cut", counters.cut),
        ("duplicated", counters.duplicated),
        ("reordered", counters.reordered),
    ] {
        if count > 0 {
            let _ = write!(text, " {name} {count}");
        }
    }
    text
}

fn say(text: &str) {
    // Nobody is left to be told.
    let _ = writeln!(io::stdout(), "{text}");
}

fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "sangam-emulator: {text}");
}
