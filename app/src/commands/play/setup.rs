//! Where the streams of a player go: ports for players, and a recording.

use std::net::SocketAddr;
use std::path::PathBuf;

use sangam_model::MediaInfo;

use super::forward::Destination;
use crate::cli::PlayArgs;
use crate::config::Rtcp;
use crate::exit::{Exit, Failure, io};
use crate::ffmpeg::{Recorder, port_pair};
use crate::sdp;

/// Ports, description and recording of one player.
#[derive(Debug)]
pub(super) struct Setup {
    base: Option<SocketAddr>,
    sdp: Option<PathBuf>,
    out: Option<PathBuf>,
    name: String,
    /// Ports for players, one for each stream.
    ports: Vec<Destination>,
    recorder: Option<Recorder>,
    /// A recording that is complete.
    recorded: Option<PathBuf>,
}

impl Setup {
    /// From the command line.
    pub(super) fn new(args: &PlayArgs) -> Self {
        Self {
            base: args.rtp,
            sdp: args.sdp.clone(),
            out: args.out.clone(),
            name: args
                .topic
                .first()
                .map(ToString::to_string)
                .unwrap_or_default(),
            ports: Vec::new(),
            recorder: None,
            recorded: None,
        }
    }

    /// Gives the streams their ports and writes the description; starts the recording with the
    /// first of them. Streams that come later are in the description, but not in the recording.
    pub(super) fn arrange(&mut self, media: &[MediaInfo]) -> Result<(), Failure> {
        if media.is_empty() {
            return Ok(());
        }
        while (self.base.is_some() || self.sdp.is_some()) && self.ports.len() < media.len() {
            let port = self.next_port()?;
            self.ports.push(port);
        }
        self.describe(media)?;
        if let (Some(path), None, None) = (&self.out, &self.recorder, &self.recorded) {
            self.recorder = Some(Recorder::start(path, media)?);
        }
        Ok(())
    }

    /// Where the packets of a stream go.
    pub(super) fn destinations(&self, stream: usize) -> impl Iterator<Item = Destination> {
        let recorded = self
            .recorder
            .as_ref()
            .and_then(|recorder| recorder.ports().get(stream));
        let recorded = recorded.map(|rtp| Destination { rtp: *rtp });
        [self.ports.get(stream).copied(), recorded]
            .into_iter()
            .flatten()
    }

    /// Takes note of a recording that has ended because its publishers said goodbye.
    ///
    /// # Errors
    /// It ended for another reason.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        if self.recorder.as_mut().is_some_and(Recorder::has_ended) {
            self.recorded = self.recorder.take().map(Recorder::finish).transpose()?;
        }
        Ok(())
    }

    /// Ends the recording. Its file, if there is one.
    pub(super) fn finish(&mut self) -> Result<Option<PathBuf>, Failure> {
        let recorded = self.recorder.take().map(Recorder::finish).transpose()?;
        Ok(recorded.or(self.recorded.take()))
    }

    /// The description, once it is written.
    pub(super) fn sdp(&self) -> Option<PathBuf> {
        self.sdp.clone().filter(|_| !self.ports.is_empty())
    }

    fn next_port(&self) -> Result<Destination, Failure> {
        let Some(base) = self.base else {
            let ip = [127, 0, 0, 1].into();
            let port = port_pair(ip).map_err(io("no ports for players"))?;
            return Ok(Destination {
                rtp: SocketAddr::new(ip, port),
            });
        };
        let offset = u16::try_from(self.ports.len() * 2).unwrap_or(u16::MAX);
        let port = base
            .port()
            .checked_add(offset)
            .filter(|port| *port < u16::MAX);
        let port = port.ok_or_else(|| {
            Failure::new(
                Exit::Usage,
                format!("--rtp {base}: no port left for the next stream"),
            )
            .hint("choose a lower port, or a narrower --topic")
        })?;
        Ok(Destination {
            rtp: SocketAddr::new(base.ip(), port),
        })
    }

    fn describe(&self, media: &[MediaInfo]) -> Result<(), Failure> {
        let Some(path) = &self.sdp else { return Ok(()) };
        let described: Vec<_> = media
            .iter()
            .zip(&self.ports)
            .map(|(info, port)| sdp::Media {
                info: info.clone(),
                to: port.rtp,
                rtcp: Rtcp::NextPort,
            })
            .collect();
        let text = sdp::write(&self.name, &described);
        std::fs::write(path, text).map_err(io(path.display()))
    }
}
