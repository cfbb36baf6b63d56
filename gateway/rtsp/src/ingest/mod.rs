//! What cameras and encoders publish: ANNOUNCE and RECORD (RFC 2326 sections 10.3 and 10.11).
//!
//! `sdp` is what a client announces, `feed` one publication and its packets, `requests` answers
//! what publishers ask, `intake` brings packets in and feedback out, `reception` is how well they
//! come.

mod feed;
mod intake;
mod reception;
mod requests;
mod sdp;

use std::time::Duration;

use sangam_client::Client;
use sangam_model::Topic;

pub(crate) use feed::Feed;
use sdp::Announced;

use crate::token::NewToken;

/// How long the broker's leave to publish is waited for.
const LEAVE_WAIT: Duration = Duration::from_secs(5);

/// The client by which things are published. It is not the one that watches: a publisher does not
/// hear itself.
pub(crate) struct Ingest {
    pub(crate) client: Client,
    pub(crate) token: NewToken,
    /// There may be more to take: the descriptor does not tell.
    pub(crate) has_more: bool,
}

/// What a connection has announced.
#[derive(Debug)]
pub(crate) struct Announcement {
    /// The path that it is announced at.
    path: String,
    tracks: Vec<Announced>,
}

impl Announcement {
    /// The place of the track that a path names, whose control attribute is a URL, the end of one,
    /// or nothing (RFC 2326 appendix C.1.1).
    fn place(&self, path: &str) -> Option<usize> {
        let rest = path.strip_prefix(&self.path)?.trim_matches('/');
        let mut tracks = self.tracks.iter();
        let named = tracks.position(|track| !rest.is_empty() && track.is_named(rest));
        let only = (self.tracks.len() == 1 && rest.is_empty()).then_some(0);
        named.or(only)
    }
}

/// The topic of the n-th track of a class below one: `TOPIC/video`, and `TOPIC/video/2` for the
/// second.
fn below(topic: &Topic, class: &str, number: usize) -> Option<Topic> {
    let text = match number {
        1 => format!("{topic}/{class}"),
        more => format!("{topic}/{class}/{more}"),
    };
    Topic::new(&text).ok()
}
