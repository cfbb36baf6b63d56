//! How much of a film is played in each 40 ms.

use std::time::Duration;

use clap::ValueEnum;

use super::stream::{self, PACKET};

/// The length of a frame: 25 each second.
pub(crate) const FRAME: Duration = Duration::from_millis(40);

const DVD: &str = include_str!("../../data/film-dvd.csv");
const SMALL: &str = include_str!("../../data/film-small.csv");

/// Bytes of one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) picture: u32,
    /// Sound that belongs beside it.
    pub(crate) sound: u32,
}

/// The films of Yima's experiments (Zimmermann et al., section 3.1 and summary).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// A DVD: variable, 5.33 Mb/s in the mean.
    Dvd,
    /// High definition: constant, 20 Mb/s.
    #[value(name = "20m")]
    High,
    /// MPEG-4: variable, 0.8 Mb/s in the mean.
    #[value(name = "800k")]
    Small,
    /// The most they had: constant, 45 Mb/s.
    #[value(name = "45m")]
    Highest,
}

/// A film as numbers. It has no end: behind its last frame comes its first.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    pub(crate) frames: Vec<Frame>,
}

impl Kind {
    /// As reports name it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Dvd => "dvd",
            Self::High => "20 Mb/s constant",
            Self::Small => "800 kb/s variable",
            Self::Highest => "45 Mb/s",
        }
    }

    /// Megabits per second of the transport stream that a player needs in the mean.
    pub(crate) const fn mbps(self) -> f64 {
        match self {
            Self::Dvd => 5.33,
            Self::High => 20.0,
            Self::Small => 0.8,
            Self::Highest => 45.0,
        }
    }

    /// Films on a node, and seconds of each: together more than four times the blocks that a server
    /// keeps in memory (256 MiB). Of the highest rate there is one.
    pub(crate) const fn shelf(self) -> (usize, u64) {
        match self {
            Self::Dvd => (6, 300),
            Self::High => (4, 120),
            Self::Small => (40, 300),
            Self::Highest => (1, 240),
        }
    }

    /// Viewers of this film for so many of a DVD, by the films' rates; one at least.
    pub(crate) fn viewers(self, dvd: usize) -> usize {
        let ratio = Self::Dvd.mbps() / self.mbps();
        ((dvd as f64 * ratio) as usize).max(1)
    }

    /// Its frames.
    pub(crate) fn trace(self) -> Trace {
        let frames = match self {
            Self::Dvd => parse(DVD),
            Self::Small => parse(SMALL),
            Self::High | Self::Highest => constant(self.mbps()),
        };
        Trace { frames }
    }
}

impl Trace {
    /// A frame of the endless film.
    pub(crate) fn frame(&self, number: u64) -> Frame {
        self.frames[(number % self.frames.len() as u64) as usize]
    }

    /// Bits of the transport stream in each frame from `first` on, tables included.
    pub(crate) fn bits(&self, first: u64, frames: u64) -> impl Iterator<Item = u64> {
        let bits = |packets: u32| u64::from(packets) * PACKET as u64 * 8;
        let frames = (0..frames).map(move |number| (number, self.frame(first + number)));
        frames.map(move |(number, frame)| bits(stream::packets(number, frame)))
    }

    /// Megabits per second of the transport stream, the mean of so many frames from `first` on.
    pub(crate) fn mbps(&self, first: u64, frames: u64) -> f64 {
        let bits: u64 = self.bits(first, frames).sum();
        bits as f64 / (frames.max(1) as f64 * FRAME.as_secs_f64()) / 1e6
    }
}

fn parse(text: &str) -> Vec<Frame> {
    let frame = |line: &str| {
        let (picture, sound) = line.split_once(',')?;
        Some(Frame {
            picture: picture.parse().ok()?,
            sound: sound.parse().ok()?,
        })
    };
    text.lines().filter_map(frame).collect()
}

/// One second of frames that fill whole packets.
fn constant(mbps: f64) -> Vec<Frame> {
    let packets = mbps * 1e6 / 8.0 * FRAME.as_secs_f64() / PACKET as f64;
    let mut done = 0;
    let frames = (1..=stream::KEY_EVERY).map(|number| {
        let due = (packets * number as f64).round() as u32;
        let mut now = due - done;
        done = due;
        if number == 1 {
            now -= stream::TABLES;
        }
        Frame {
            picture: stream::picture_bytes(now),
            sound: 0,
        }
    });
    frames.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn films_have_the_papers_rates() {
        for kind in [Kind::Dvd, Kind::High, Kind::Small, Kind::Highest] {
            let trace = kind.trace();
            let mean = trace.mbps(0, trace.frames.len() as u64);
            let ratio = mean / kind.mbps();
            assert!((0.99..1.01).contains(&ratio), "{}: {mean}", kind.name());
        }
    }

    #[test]
    fn a_shelf_is_more_than_a_server_keeps_in_memory() {
        for kind in [Kind::Dvd, Kind::High, Kind::Small, Kind::Highest] {
            let (films, seconds) = kind.shelf();
            let bytes = films as f64 * seconds as f64 * kind.mbps() / 8.0 * 1e6;
            assert!(bytes > 4.0 * 268e6 * 0.88, "{}: {bytes}", kind.name());
        }
        assert_eq!(Kind::Dvd.viewers(12), 12);
        assert_eq!(Kind::Highest.viewers(1), 1);
        assert_eq!(Kind::Small.viewers(12), 79);
    }

    #[test]
    fn a_dvd_s_rate_swings_and_keeps_to_what_a_dvd_may_have() {
        let trace = Kind::Dvd.trace();
        assert_eq!(trace.frames.len(), 7_500);
        let seconds = (0..300).map(|second| trace.mbps(second * 25, 25));
        let seconds: Vec<f64> = seconds.collect();
        let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = seconds.iter().copied().fold(0.0, f64::max);
        assert!(least < 3.0 && (7.5..9.8).contains(&most), "{least} {most}");
    }
}
