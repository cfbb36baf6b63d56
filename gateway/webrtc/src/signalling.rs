//! Offers, answers and what comes after: WHIP (RFC 9725) and WHEP without their HTTP.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use sangam_model::{Filter, Topic};
use sangam_wire::Refusal;
use str0m::bwe::Bitrate;
use str0m::change::SdpOffer;
use str0m::{Candidate, IceCreds, Rtc, RtcConfig};

use crate::egress::Egress;
use crate::ingest::Ingest;
use crate::offer::{Offer, OfferError};
use crate::shown::Shown;

/// Packets kept for each subscriber and video to answer its NACKs: a second of 2 Mb/s.
const REPEATABLE: usize = 256;
/// What a path is thought to carry until it is measured.
const FIRST_ESTIMATE: Bitrate = Bitrate::kbps(600);
/// Bytes of a fragment with candidates or new credentials.
const FRAGMENT_LEN_MAX: usize = 16_384;
/// Candidates of one fragment that are looked at.
const CANDIDATES_MAX: usize = 32;
/// RFC 8839 section 5.4: characters of a user fragment and of a password.
const UFRAG_LENS: std::ops::RangeInclusive<usize> = 4..=256;
const PASSWORD_LENS: std::ops::RangeInclusive<usize> = 22..=256;

/// What somebody wants who makes an offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// WHIP: its sound is published below this topic under `audio`, its picture under `video`,
    /// or `video/0` and up for simulcast layers, lowest first.
    Publish(Topic),
    /// WHEP: what this selects, itself or below it in the order above, is sent.
    Play(Filter),
}

/// An offer and whose it is.
#[derive(Clone, Debug)]
pub struct Join {
    /// What is wanted.
    pub wish: Wish,
    /// The offer, SDP.
    pub offer: String,
    /// Shown to the broker if clients need one.
    pub token: Option<String>,
    /// Who asks.
    pub address: IpAddr,
    /// Whose the peer is, in words of whoever asks for it; told by [`Description::holder`].
    pub holder: Option<String>,
}

/// An answered offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// By which the peer is known.
    pub id: PeerId,
    /// The answer, SDP.
    pub answer: String,
    /// Names this generation of ICE credentials, for HTTP's `ETag`.
    pub generation: String,
}

/// Why an offer is not answered, or a peer not found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinError {
    /// The offer itself.
    Offer(OfferError),
    /// The broker says no.
    Refused(Refusal),
    /// As many peers as there may be, or too many unconnected ones of this address.
    Full,
    /// There is no such peer, or no more.
    Unknown,
    /// A fragment with nothing in it that could be used.
    Fragment,
    /// A fragment of more bytes than are taken.
    TooLong,
    /// Heights of something that is no video of the peer, or that nothing can be shown at.
    Shown,
    /// Heights are told too often.
    TooOften,
    /// The broker is stopping, or does not answer.
    Stopping,
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offer(error) => error.fmt(f),
            Self::Refused(reason) => reason.fmt(f),
            Self::Full => f.write_str("too many peers; try again later or another broker"),
            Self::Unknown => f.write_str("there is no such peer any more; make a new offer"),
            Self::Fragment => f.write_str("the fragment holds neither candidates nor credentials"),
            Self::TooLong => write!(f, "a fragment has at most {FRAGMENT_LEN_MAX} bytes"),
            Self::Shown => f.write_str(
                "tell heights of videos that are received, by their mid, in pixels up to 4320",
            ),
            Self::TooOften => f.write_str(
                "heights are told more than ten times a second; tell the last ones later",
            ),
            Self::Stopping => f.write_str("the broker is stopping; try another one"),
        }
    }
}

impl std::error::Error for JoinError {}

impl From<OfferError> for JoinError {
    fn from(error: OfferError) -> Self {
        Self::Offer(error)
    }
}

/// The name of a peer: nobody guesses it, and it tells its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PeerId {
    pub(crate) shard: u16,
    number: u128,
}

impl PeerId {
    /// A new one; `None` if the system gives no randomness.
    pub(crate) fn draw(shard: u16) -> Option<Self> {
        let mut bytes = [0; 16];
        rand::fill(&mut bytes).ok()?;
        let number = u128::from_be_bytes(bytes);
        Some(Self { shard, number })
    }
}

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}{:032x}", self.shard, self.number)
    }
}

impl FromStr for PeerId {
    type Err = JoinError;

    fn from_str(text: &str) -> Result<Self, JoinError> {
        let hex = text.len() == 34 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (shard, number) = text
            .split_at_checked(2)
            .filter(|_| hex)
            .ok_or(JoinError::Unknown)?;
        let shard = u16::from_str_radix(shard, 16).map_err(|_| JoinError::Unknown)?;
        let number = u128::from_str_radix(number, 16).map_err(|_| JoinError::Unknown)?;
        Ok(Self { shard, number })
    }
}

/// Everything a shard needs of a new peer.
pub(crate) struct Arrival {
    pub(crate) id: PeerId,
    pub(crate) rtc: Rtc,
    pub(crate) creds: IceCreds,
    /// For a restart of ICE, which is an offer with other credentials.
    pub(crate) offer: String,
    pub(crate) filters: Vec<Filter>,
    pub(crate) ingest: Ingest,
    pub(crate) egress: Egress,
    pub(crate) token: Option<String>,
    pub(crate) address: IpAddr,
    pub(crate) holder: Option<String>,
    pub(crate) connect_within: Duration,
    pub(crate) answer: SyncSender<Result<(), Refusal>>,
}

/// What the handle asks of a shard.
pub(crate) enum Command {
    Join(Box<Arrival>),
    Trickle(PeerId, Vec<Candidate>, SyncSender<bool>),
    Restart(PeerId, Box<Restart>, SyncSender<bool>),
    Renew(PeerId, (String, IpAddr), SyncSender<bool>),
    Leave(PeerId, SyncSender<bool>),
    Show(PeerId, Vec<Shown>, SyncSender<Result<(), JoinError>>),
    Describe(PeerId, SyncSender<Option<Description>>),
}

/// A restart of ICE.
#[derive(Debug)]
pub(crate) struct Restart {
    pub(crate) theirs: IceCreds,
    pub(crate) ours: IceCreds,
    pub(crate) candidates: Vec<Candidate>,
}

/// A peer as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// ICE and DTLS are through.
    pub connected: bool,
    /// Topics it publishes.
    pub publishes: Vec<Topic>,
    /// The media it receives, by `mid`, and the topic that plays in each.
    pub plays: Vec<(String, Option<String>)>,
    /// Whose it is: [`Join::holder`].
    pub holder: Option<String>,
    /// The generation of ICE credentials in use: [`Joined::generation`].
    pub generation: String,
}

/// What is read from an offer, and the library's peer that answers it.
pub(crate) struct Answered {
    pub(crate) rtc: Rtc,
    pub(crate) text: String,
    pub(crate) ingest: Ingest,
    pub(crate) egress: Egress,
    pub(crate) filters: Vec<Filter>,
}

/// Answers an offer. Everything costly or risky about a new peer happens here, in the thread of
/// whoever asks and not in a shard.
///
/// # Errors
/// The offer cannot be used.
pub(crate) fn answer(
    join: &Join,
    config: RtcConfig,
    candidates: &[Candidate],
) -> Result<Answered, OfferError> {
    let mut offer = Offer::read(&join.offer)?;
    let ingest = match &join.wish {
        Wish::Publish(topic) => {
            offer.decide();
            Ingest::of(&offer, topic).ok_or(OfferError::TooMuch)?
        }
        Wish::Play(_) => Ingest::default(),
    };
    let mut config = config
        .set_ice_lite(true)
        .set_rtp_mode(true)
        .set_send_buffer_video(REPEATABLE);
    if matches!(join.wish, Wish::Play(_)) {
        config = config.enable_bwe(Some(FIRST_ESTIMATE));
    }
    *config.codec_config() = offer.codecs();
    let mut rtc = config.build(Instant::now());
    for candidate in candidates {
        rtc.add_local_candidate(candidate.clone());
    }
    let unreadable = |error: String| OfferError::Unreadable(error);
    let sdp = SdpOffer::from_sdp_string(&join.offer);
    let sdp = sdp.map_err(|error| unreadable(error.to_string()))?;
    let answer = rtc.sdp_api().accept_offer(sdp);
    let answer = answer.map_err(|error| unreadable(error.to_string()))?;
    let (egress, filters) = match &join.wish {
        Wish::Publish(_) => (Egress::default(), Vec::new()),
        Wish::Play(filter) => (Egress::of(&offer, &mut rtc), crate::egress::filters(filter)),
    };
    Ok(Answered {
        text: offer.echo(answer.to_sdp_string()),
        rtc,
        ingest,
        egress,
        filters,
    })
}

/// What a fragment (RFC 8840) says.
#[derive(Debug, Default)]
pub(crate) struct Fragment {
    /// There if both halves are.
    pub(crate) creds: Option<IceCreds>,
    pub(crate) candidates: Vec<Candidate>,
}

impl Fragment {
    /// Reads credentials and candidates; lines that are neither are ignored, as are candidates
    /// that cannot be used, for instance with a name instead of an address.
    ///
    /// # Errors
    /// Too long, or there is neither.
    pub(crate) fn read(text: &str) -> Result<Self, JoinError> {
        if text.len() > FRAGMENT_LEN_MAX {
            return Err(JoinError::TooLong);
        }
        let value = |name: &str| {
            text.lines()
                .find_map(|line| line.trim_end().strip_prefix(name))
        };
        let creds = value("a=ice-ufrag:").zip(value("a=ice-pwd:"));
        let creds =
            creds.filter(|(ufrag, pass)| is_ice(ufrag, UFRAG_LENS) && is_ice(pass, PASSWORD_LENS));
        let lines = text
            .lines()
            .filter_map(|line| line.trim_end().strip_prefix("a="));
        let candidates = lines.filter(|line| line.starts_with("candidate:"));
        let candidates = candidates
            .take(CANDIDATES_MAX)
            .filter_map(|line| Candidate::from_sdp_string(line).ok());
        let fragment = Self {
            creds: creds.map(|(ufrag, pass)| IceCreds {
                ufrag: ufrag.to_owned(),
                pass: pass.to_owned(),
            }),
            candidates: candidates.collect(),
        };
        let ends = text.contains("a=end-of-candidates");
        if fragment.creds.is_none() && fragment.candidates.is_empty() && !ends {
            return Err(JoinError::Fragment);
        }
        Ok(fragment)
    }
}

/// RFC 8839 section 5.4: ice-char is a letter, a digit, plus or slash; browsers also send others
/// of base64url.
fn is_ice(text: &str, lens: std::ops::RangeInclusive<usize>) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte);
    lens.contains(&text.len()) && text.bytes().all(good)
}

/// The offer of a peer with other credentials and without its old candidates.
pub(crate) fn with_credentials(offer: &str, creds: &IceCreds) -> String {
    let mut out = String::with_capacity(offer.len());
    for line in offer.lines() {
        if line.starts_with("a=candidate:") {
            continue;
        }
        if line.starts_with("a=ice-ufrag:") {
            out += "a=ice-ufrag:";
            out += &creds.ufrag;
        } else if line.starts_with("a=ice-pwd:") {
            out += "a=ice-pwd:";
            out += &creds.pass;
        } else {
            out += line.trim_end();
        }
        out += "\r\n";
    }
    out
}

/// The answer to a restart (RFC 9725 section 4.3.2): our new credentials and candidates.
pub(crate) fn restarted(ours: &IceCreds, candidates: &[Candidate]) -> String {
    let mut out = format!(
        "a=ice-lite\r\na=ice-ufrag:{}\r\na=ice-pwd:{}\r\n",
        ours.ufrag, ours.pass
    );
    for candidate in candidates {
        out += &format!("a={}\r\n", candidate.to_sdp_string());
    }
    out + "a=end-of-candidates\r\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_peers_survive_a_url() {
        let id = PeerId::draw(63).unwrap();
        assert_eq!(id.to_string().parse(), Ok(id));
        let long = "0".repeat(35);
        for text in ["", "00", "zz", &long, "../../etc/passwd", "3é"] {
            assert_eq!(text.parse::<PeerId>(), Err(JoinError::Unknown), "{text}");
        }
    }

    #[test]
    fn fragments_carry_candidates_or_credentials() {
        let line = "a=candidate:1 1 udp 2122260223 192.0.2.1 61764 typ host\r\n";
        let fragment = Fragment::read(line).unwrap();
        assert_eq!((fragment.candidates.len(), fragment.creds), (1, None));
        let creds = "a=ice-ufrag:EsAw\r\na=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1\r\n";
        let fragment = Fragment::read(creds).unwrap();
        assert_eq!(fragment.creds.unwrap().ufrag, "EsAw");
        let mdns = "a=candidate:1 1 udp 1 1f4712db.local 61764 typ host\r\na=end-of-candidates";
        assert!(Fragment::read(mdns).unwrap().candidates.is_empty());
    }

    #[test]
    fn fragments_without_use_are_refused() {
        let long = "a=candidate:x\r\n".repeat(2_000);
        assert_eq!(Fragment::read(&long).unwrap_err(), JoinError::TooLong);
        let short = "a=ice-ufrag:ab\r\na=ice-pwd:cd\r\n";
        let evil = "a=ice-ufrag:ab cd\r\na=ice-pwd:P2uYro0UCOQ4zxjKXaWCBui1\r\n";
        for text in ["", "v=0", "a=candidate:x\r\n", short, evil] {
            let error = Fragment::read(text).unwrap_err();
            assert_eq!(error, JoinError::Fragment);
        }
    }

    #[test]
    fn a_restart_is_the_same_offer_with_other_credentials() {
        let offer =
            "v=0\r\na=ice-ufrag:old\r\nm=audio 9 X 0\r\na=candidate:1 x\r\na=ice-pwd:old\r\n";
        let creds = IceCreds {
            ufrag: "new".to_owned(),
            pass: "secret".to_owned(),
        };
        let expected = "v=0\r\na=ice-ufrag:new\r\nm=audio 9 X 0\r\na=ice-pwd:secret\r\n";
        assert_eq!(with_credentials(offer, &creds), expected);
    }
}
