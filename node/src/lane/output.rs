//! What a link asks for next, dialled or accepted.

use sangam_link::{DialOutput, Output as SessionOutput, Sample};
use sangam_model::Time;
use sangam_wire::{Message, Refusal, Welcome};

use super::link::{End, Link};

/// What a link asks for, whichever end it is.
pub(super) enum Output {
    Transmit(Vec<u8>),
    Message(Message),
    Suspect,
    Recovered,
    Sample(Sample),
    /// The path carries datagrams of so many bytes.
    Carries(u16),
    Up(Box<Welcome>),
    Down(Refusal),
    /// With the version that the neighbour speaks.
    Refused(Refusal, u8),
    Connect,
    Nothing,
}

impl Link {
    /// What it asks for, until it asks for nothing.
    pub(super) fn output(&mut self, now: Time) -> Output {
        match &mut self.end {
            End::Dialing(dialer) => dialer.poll(now).map_or(Output::Nothing, dialled),
            End::Accepted { session, .. } => session.poll(now).map_or(Output::Nothing, accepted),
        }
    }
}

fn dialled(output: DialOutput) -> Output {
    match output {
        DialOutput::Hello(bytes) | DialOutput::Transmit(bytes) => Output::Transmit(bytes),
        DialOutput::Up(welcome) => Output::Up(Box::new(welcome)),
        DialOutput::Message(message) => Output::Message(message),
        DialOutput::Suspect => Output::Suspect,
        DialOutput::Recovered => Output::Recovered,
        DialOutput::Sample(sample) => Output::Sample(sample),
        DialOutput::Carries(size) => Output::Carries(size),
        DialOutput::Down(reason) => Output::Down(reason),
        DialOutput::Refused { reason, speaks, .. } => Output::Refused(reason, speaks),
        DialOutput::Connect => Output::Connect,
    }
}

fn accepted(output: SessionOutput) -> Output {
    match output {
        SessionOutput::Transmit(bytes) => Output::Transmit(bytes),
        SessionOutput::Message(message) => Output::Message(message),
        SessionOutput::Suspect => Output::Suspect,
        SessionOutput::Recovered => Output::Recovered,
        SessionOutput::Sample(sample) => Output::Sample(sample),
        SessionOutput::Carries(size) => Output::Carries(size),
        SessionOutput::Down(reason) => Output::Down(reason),
    }
}
