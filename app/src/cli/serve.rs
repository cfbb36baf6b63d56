//! Options of `serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use super::ConfigFile;
use crate::config::{Leg, LinkAddress, MediaSpec, Rtcp};

/// Options of `sangam serve`; they go over the file and the variables.
#[derive(Args, Debug, Default)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) file: ConfigFile,
    /// For trying things out: loopback addresses, text logs, nothing kept on disk
    #[arg(long)]
    pub(crate) dev: bool,
    /// With --dev: no demonstration meeting
    #[arg(long)]
    pub(crate) no_demo: bool,
    /// UDP and TCP address to listen on, such as 0.0.0.0:4600; repeat it for IPv6
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<SocketAddr>,
    /// Address for WebRTC, UDP and TCP; repeat it for IPv6
    #[arg(long, value_name = "ADDR")]
    pub(crate) webrtc: Vec<SocketAddr>,
    /// HTTP address for health, metrics and API
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,
    /// Neighbour broker to link with: HOST:PORT, or quic://, tls://, wss://, tcp:// or ws:// in
    /// front; may be repeated
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) link: Vec<LinkAddress>,
    /// Broker of a network to join, as for --link; links to others follow by themselves; may be
    /// repeated: addresses of one host are ways to one broker, best first
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) join: Vec<LinkAddress>,
    /// Where this broker stands: those of one region are linked closely
    #[arg(long, value_name = "NAME")]
    pub(crate) region: Option<String>,
    /// RTP leg: name=cam,topic=demo/cam,receive=ADDR:PORT,media=96 H264/90000; may be repeated
    #[arg(long, value_name = "LEG")]
    pub(crate) leg: Vec<LegOption>,
    /// Name of the broker in logs and metrics
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Where key and counters are kept
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Ask clients for no tokens: where everybody who reaches this broker may do everything
    #[arg(long)]
    pub(crate) no_auth: bool,
    /// Number of delivery shards; 0: one per core
    #[arg(long, value_name = "N")]
    pub(crate) shards: Option<u16>,
    /// End when standard input is closed, so that no broker outlives the tool that started it
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
}

/// A leg as one command-line word.
#[derive(Clone, Debug)]
pub(crate) struct LegOption(pub(crate) Leg);

impl FromStr for LegOption {
    type Err = String;

    /// `key=value` pairs with commas between; `media` comes last, as it may hold commas itself.
    fn from_str(text: &str) -> Result<Self, String> {
        let (pairs, media) = match text.split_once("media=") {
            Some((pairs, media)) => (pairs.trim_end_matches(','), Some(media)),
            None => (text, None),
        };
        let mut leg = Leg::default();
        if let Some(media) = media {
            leg.media = Some(media.parse::<MediaSpec>()?);
        }
        for pair in pairs.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| format!("{pair:?}: write key=value"))?;
            let address = || {
                let wrong = |_| format!("{key}={value:?}: write an address such as 127.0.0.1:5004");
                value.parse::<SocketAddr>().map_err(wrong)
            };
            match key {
                "name" => leg.name = value.to_owned(),
                "topic" => leg.topic = value.to_owned(),
                "receive" => leg.receive = Some(address()?),
                "send" => leg.send = Some(address()?),
                "rtcp" => leg.rtcp = value.parse::<Rtcp>()?,
                _ => {
                    let known = "name, topic, receive, send, rtcp and media";
                    return Err(format!("a leg has no {key:?}, but {known}"));
                }
            }
        }
        Ok(Self(leg))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leg_fits_one_word() {
        let text = "name=cam,topic=a/b,receive=127.0.0.1:5004,rtcp=mux,media=96 H264/90000 a=1,b";
        let LegOption(leg) = text.parse().unwrap();
        assert_eq!((leg.name.as_str(), leg.topic.as_str()), ("cam", "a/b"));
        assert_eq!(leg.receive, Some("127.0.0.1:5004".parse().unwrap()));
        assert_eq!(leg.rtcp, Rtcp::Mux);
        assert_eq!(leg.media.unwrap().fmtp, "a=1,b");
    }

    #[test]
    fn a_wrong_leg_says_what_is_wrong() {
        for (text, word) in [
            ("name", "key=value"),
            ("port=1", "no \"port\""),
            ("send=x", "5004"),
        ] {
            let error = text.parse::<LegOption>().unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
