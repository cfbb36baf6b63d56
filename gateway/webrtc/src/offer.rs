//! An offer as far as the gateway decides about it: which media, in which encodings, in which
//! simulcast layers. The library reads the rest.

use std::collections::HashSet;

use sangam_model::{Class, MediaInfo, limits};
use str0m::format::{Codec, CodecConfig, FormatParams, PayloadParams};
use str0m::media::Frequency;

/// Bytes of an offer. A browser's with eight cameras has less than 40,000.
pub const OFFER_LEN_MAX: usize = 65_536;
/// Media of one offer: a meeting of 32 with sound and picture.
const MEDIA_MAX: usize = 64;
/// Payload types of one medium.
const FORMATS_MAX: usize = 64;
/// Layers of one video.
pub(crate) const LAYERS_MAX: usize = 4;

/// Encodings that are carried, with their name in SDP.
const CODECS: [(&str, Codec); 10] = [
    ("opus", Codec::Opus),
    ("PCMU", Codec::PCMU),
    ("PCMA", Codec::PCMA),
    ("G722", Codec::G722),
    ("VP8", Codec::Vp8),
    ("VP9", Codec::Vp9),
    ("H264", Codec::H264),
    ("H265", Codec::H265),
    ("H266", Codec::H266),
    ("AV1", Codec::Av1),
];

/// Static payload types that need no `a=rtpmap` (RFC 3551 section 6).
const STATIC: [(u8, &str); 3] = [(0, "PCMU/8000"), (8, "PCMA/8000"), (9, "G722/8000")];

/// What may be redundant, and by what: the library has RED for sound alone, and the browsers for
/// this.
const OPUS: (&str, u32, u8) = ("opus", 48_000, 2);
const RED: &str = "red/48000/2";

/// Names by which simulcast layers are commonly told apart, lowest first.
const LADDERS: [&[&str]; 4] = [
    &["q", "h", "f"],
    &["l", "m", "h"],
    &["low", "mid", "high"],
    &["low", "medium", "high"],
];

/// The media of an offer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) media: Vec<Medium>,
}

/// One m-line of audio or video.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Medium {
    pub(crate) video: bool,
    pub(crate) mid: String,
    /// Not to be used.
    pub(crate) rejected: bool,
    /// In the offerer's order of preference.
    pub(crate) formats: Vec<Format>,
    /// Layers that the offerer wants to send, lowest first; none without simulcast.
    pub(crate) layers: Vec<String>,
}

/// One encoding that is offered and known here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) payload_type: u8,
    /// For repetitions (RFC 4588), if offered.
    pub(crate) repeat: Option<u8>,
    /// For itself with earlier packets in front (RFC 2198), if the offerer prefers that.
    pub(crate) redundant: Option<u8>,
    /// As in [`CODECS`].
    pub(crate) name: &'static str,
    pub(crate) clock_rate: u32,
    pub(crate) channels: u8,
    pub(crate) fmtp: String,
}

/// Why an offer is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OfferError {
    /// Longer than [`OFFER_LEN_MAX`].
    TooLong,
    /// More media or encodings than anybody needs.
    TooMuch,
    /// Neither audio nor video in an encoding that is carried.
    NoMedia,
    /// This payload type stands for two things, or for what another stands for, too.
    Ambiguous(u8),
    /// Not SDP, or not of WebRTC; in the library's words.
    Unreadable(String),
}

impl std::fmt::Display for OfferError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong => write!(f, "an offer has at most {OFFER_LEN_MAX} bytes"),
            Self::TooMuch => write!(
                f,
                "an offer has at most {MEDIA_MAX} media with {FORMATS_MAX} payload types each"
            ),
            Self::NoMedia => f.write_str(
                "the offer has neither audio nor video in an encoding that is carried: Opus, \
                 PCMU, PCMA, G722, VP8, VP9, H264, H265, H266 or AV1",
            ),
            Self::Ambiguous(number) => write!(
                f,
                "payload type {number} of the offer stands for two things, or for what another \
                 stands for, too: name each encoding once, and the same in all media"
            ),
            Self::Unreadable(why) => write!(f, "the offer cannot be used: {why}"),
        }
    }
}

impl std::error::Error for OfferError {}

impl Offer {
    /// Reads what matters and ignores everything else.
    ///
    /// # Errors
    /// See [`OfferError`].
    pub(crate) fn read(sdp: &str) -> Result<Self, OfferError> {
        if sdp.len() > OFFER_LEN_MAX {
            return Err(OfferError::TooLong);
        }
        let mut sections = sections(sdp);
        // What stands before the first medium is of no interest here.
        sections.next();
        let mut media = Vec::new();
        for section in sections {
            if media.len() == MEDIA_MAX {
                return Err(OfferError::TooMuch);
            }
            media.extend(Medium::read(&section)?);
        }
        let mut offer = Self { media };
        if offer.media.iter().all(|medium| medium.formats.is_empty()) {
            return Err(OfferError::NoMedia);
        }
        offer.check()?;
        offer.agree();
        Ok(offer)
    }

    /// Leaves each medium with the one encoding that its sender prefers, so that nothing else
    /// can come.
    pub(crate) fn decide(&mut self) {
        for medium in &mut self.media {
            medium.formats.truncate(1);
        }
    }

    /// The same in the library's words.
    pub(crate) fn codecs(&self) -> CodecConfig {
        let mut config = CodecConfig::empty();
        for format in self.distinct() {
            if format.redundant.is_some() {
                // There is no other way to tell of RED. What it brings in numbers and parameters
                // is of no matter: it takes the offer's numbers, and `echo` has the parameters.
                config.enable_opus(true, true);
            } else {
                format.put(&mut config);
            }
        }
        config
    }

    /// The library takes a number for one thing, and one number of those whose encodings are the
    /// same to it. Over an offer with more it panics, or waits for a number that is not used.
    fn check(&self) -> Result<(), OfferError> {
        let mut config = CodecConfig::empty();
        self.distinct().for_each(|format| format.put(&mut config));
        let mut taken = HashSet::new();
        for one in config.params() {
            let best = config.match_params(*one).map(PayloadParams::pt);
            let mut numbers = [Some(one.pt()), one.resend()].into_iter().flatten();
            if best != Some(one.pt()) || !numbers.all(|number| taken.insert(number)) {
                return Err(OfferError::Ambiguous(*one.pt()));
            }
        }
        Ok(())
    }

    /// The library answers with one RED for all media, wherever it finds Opus. So it stays where
    /// all that offer Opus prefer the same, and nothing else has its number.
    fn agree(&mut self) {
        let formats = || self.media.iter().flat_map(|medium| &medium.formats);
        let wanted = |format: &Format| (format.payload_type, format.redundant);
        let mut opus = formats().filter(|format| format.name == OPUS.0);
        let first = opus.next().map(wanted);
        let same = opus.all(|format| Some(wanted(format)) == first);
        let red = first.and_then(|(_, red)| red);
        let free = red.is_some_and(|red| {
            !formats().any(|one| one.payload_type == red || one.repeat == Some(red))
        });
        if same && free {
            return;
        }
        for medium in &mut self.media {
            for format in &mut medium.formats {
                format.redundant = None;
            }
        }
    }

    /// The formats of all media; of those with one number, which media share, the first.
    fn distinct(&self) -> impl Iterator<Item = &Format> {
        let mut seen = HashSet::new();
        let all = self.media.iter().flat_map(|medium| &medium.formats);
        all.filter(move |format| seen.insert(format.payload_type))
    }

    /// An answer with the parameters of Opus as they were offered: beside RED the library has some
    /// of its own.
    pub(crate) fn echo(&self, answer: String) -> String {
        let mut formats = self.media.iter().flat_map(|medium| &medium.formats);
        let Some(opus) = formats.find(|format| format.redundant.is_some()) else {
            return answer;
        };
        let name = format!("a=fmtp:{} ", opus.payload_type);
        let offered = FormatParams::parse_line(&opus.fmtp).to_string();
        let mut echo = String::with_capacity(answer.len());
        for line in answer.lines() {
            let own = line.starts_with(&name);
            if own && offered.is_empty() {
                continue;
            }
            let parts = if own { [&*name, &*offered] } else { [line, ""] };
            echo.extend(parts);
            echo += "\r\n";
        }
        echo
    }
}

impl Medium {
    /// One section, if it is of audio or video.
    fn read(lines: &[&str]) -> Result<Option<Self>, OfferError> {
        let mut head = lines[0].split_ascii_whitespace();
        let video = match head.next() {
            Some("m=audio") => false,
            Some("m=video") => true,
            _ => return Ok(None),
        };
        // RFC 8843 section 6: port 0 beside `a=bundle-only` is no refusal.
        let rejected = head.next() == Some("0") && !lines.contains(&"a=bundle-only");
        let numbers: Vec<u8> = head.skip(1).filter_map(|text| text.parse().ok()).collect();
        if numbers.len() > FORMATS_MAX {
            return Err(OfferError::TooMuch);
        }
        let of = |name: &str, number: u8| {
            lines.iter().find_map(|line| {
                let (found, rest) = line.strip_prefix(name)?.split_once(' ')?;
                (found.parse() == Ok(number)).then_some(rest.trim())
            })
        };
        let map = |number| {
            let fixed = STATIC.iter().find(|(fixed, _)| *fixed == number);
            of("a=rtpmap:", number).or_else(|| fixed.map(|(_, text)| *text))
        };
        let repeats = |main: u8| {
            let is = |number: &&u8| {
                map(**number).is_some_and(|text| text.to_ascii_lowercase().starts_with("rtx/"))
                    && of("a=fmtp:", **number).is_some_and(|text| repeats(text, main))
            };
            numbers.iter().find(is).copied()
        };
        let redundant = |main: u8| {
            let is = |number: &&u8| {
                map(**number).is_some_and(|text| text.eq_ignore_ascii_case(RED))
                    && of("a=fmtp:", **number).is_some_and(|text| wraps(text, main))
            };
            let mut found = numbers.iter().filter(is);
            let only = found.next().filter(|_| found.next().is_none())?;
            // The order in m= is the order of preference (RFC 8866 section 5.14).
            let place = |wanted: u8| numbers.iter().position(|number| *number == wanted);
            (place(*only) < place(main)).then_some(*only)
        };
        let format = |number: &u8| {
            let mut format = Format::read(*number, map(*number)?)?;
            format.repeat = repeats(*number);
            if !video && format.is(OPUS) {
                format.redundant = redundant(*number);
            }
            format.fmtp = of("a=fmtp:", *number).unwrap_or_default().to_owned();
            (format.fmtp.len() <= limits::FMTP_LEN_MAX).then_some(format)
        };
        let value = |name: &str| lines.iter().find_map(|line| line.strip_prefix(name));
        Ok(Some(Self {
            video,
            mid: value("a=mid:").unwrap_or_default().trim().to_owned(),
            rejected,
            formats: numbers.iter().filter_map(format).collect(),
            layers: value("a=simulcast:").map(layers).unwrap_or_default(),
        }))
    }

    /// Audio or video.
    pub(crate) fn class(&self) -> Class {
        if self.video {
            Class::Video
        } else {
            Class::Audio
        }
    }
}

impl Format {
    /// From `opus/48000/2`, if it is carried.
    fn read(payload_type: u8, map: &str) -> Option<Self> {
        let mut parts = map.split('/');
        let given = parts.next()?;
        let (name, _) = CODECS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(given))?;
        let clock_rate = parts.next()?.parse().ok()?;
        let channels = parts.next().and_then(|text| text.parse().ok()).unwrap_or(0);
        Some(Self {
            payload_type,
            repeat: None,
            redundant: None,
            name,
            clock_rate,
            channels,
            fmtp: String::new(),
        })
    }

    /// The library's name for it.
    pub(crate) fn codec(&self) -> Option<Codec> {
        codec(self.name)
    }

    /// What a stream of it carries.
    pub(crate) fn info(&self, class: Class) -> MediaInfo {
        MediaInfo {
            class,
            payload_type: self.payload_type,
            channels: match (class, self.channels) {
                (Class::Audio, 0) => 1,
                (_, channels) => channels,
            },
            clock_rate: self.clock_rate,
            encoding: self.name.to_owned(),
            fmtp: self.fmtp.clone(),
        }
    }

    /// Adds it, without RED.
    fn put(&self, config: &mut CodecConfig) {
        let pt = self.payload_type.into();
        if let (Some(codec), Some(rate)) = (self.codec(), self.frequency()) {
            let (repeat, channels) = (self.repeat.map(Into::into), self.channels());
            let parameters = FormatParams::parse_line(&self.fmtp);
            config.add_config(pt, repeat, codec, rate, channels, parameters);
        }
    }

    fn is(&self, other: (&str, u32, u8)) -> bool {
        (self.name, self.clock_rate, self.channels) == other
    }

    fn channels(&self) -> Option<u8> {
        (self.channels > 0).then_some(self.channels)
    }

    fn frequency(&self) -> Option<Frequency> {
        match self.codec()? {
            // RFC 3551 section 4.5.2: 8000 stands in SDP by mistake, and has to.
            Codec::G722 => Frequency::new(16_000),
            _ => Frequency::new(self.clock_rate),
        }
    }
}

/// The library's name for an encoding of SDP.
pub(crate) fn codec(name: &str) -> Option<Codec> {
    let known = CODECS
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(name));
    known.map(|(_, codec)| *codec)
}

/// Lines from one `m=` to the next; first those before any.
fn sections(sdp: &str) -> impl Iterator<Item = Vec<&str>> {
    let mut lines = sdp.lines().map(str::trim_end).peekable();
    let mut first = true;
    std::iter::from_fn(move || {
        let mut section = Vec::new();
        if !first {
            section.push(lines.next()?);
        }
        first = false;
        while let Some(line) = lines.next_if(|line| !line.starts_with("m=")) {
            section.push(line);
        }
        Some(section)
    })
}

/// RFC 4588 section 8.1: whether the format parameters say `apt=main`.
fn repeats(fmtp: &str, main: u8) -> bool {
    let mut parameters = fmtp.split(';').map(str::trim);
    parameters.any(|parameter| {
        let number = parameter.strip_prefix("apt=");
        number.is_some_and(|number| number.parse() == Ok(main))
    })
}

/// RFC 2198 section 5: whether all blocks are of `main`, as in `111/111`.
fn wraps(fmtp: &str, main: u8) -> bool {
    fmtp.contains('/') && fmtp.split('/').all(|number| number.parse() == Ok(main))
}

/// RFC 8853 section 5.1: `send 1;2,3;~4`, of which alternatives and initial pauses do not matter
/// here; lowest first.
fn layers(simulcast: &str) -> Vec<String> {
    let mut words = simulcast.split_ascii_whitespace();
    let list = loop {
        match words.next() {
            Some("send") => break words.next().unwrap_or_default(),
            Some(_) => {}
            None => return Vec::new(),
        }
    };
    let first = |group: &str| {
        let name = group.split(',').next().unwrap_or_default();
        name.trim_start_matches('~').to_owned()
    };
    let mut names: Vec<String> = list.split(';').map(first).take(LAYERS_MAX).collect();
    let ladder = LADDERS
        .iter()
        .find(|ladder| names.iter().all(|name| ladder.contains(&name.as_str())));
    match ladder {
        Some(ladder) => names.sort_by_key(|name| ladder.iter().position(|known| known == name)),
        // OBS counts from the best down.
        None if names.iter().all(|name| name.parse::<u8>().is_ok()) => names.reverse(),
        None => {}
    }
    names
}

#[cfg(test)]
#[path = "offer_tests.rs"]
mod tests;
