//! What a link wants next, dialled or accepted.

use sangam_link::{DialOutput, Output, Sample};
use sangam_model::Time;
use sangam_wire::{Message, Refusal, Welcome};

use super::link::{End, Link};

/// What a link asked for, whichever end it is.
pub(super) enum Wish {
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
    /// What it wants, until it wants nothing.
    pub(super) fn wish(&mut self, now: Time) -> Wish {
        match &mut self.end {
            End::Dialing(dialer) => dialer.poll(now).map_or(Wish::Nothing, dialled),
            End::Accepted { session, .. } => session.poll(now).map_or(Wish::Nothing, accepted),
        }
    }
}

fn dialled(output: DialOutput) -> Wish {
    match output {
        DialOutput::Hello(bytes) | DialOutput::Transmit(bytes) => Wish::Transmit(bytes),
        DialOutput::Up(welcome) => Wish::Up(Box::new(welcome)),
        DialOutput::Message(message) => Wish::Message(message),
        DialOutput::Suspect => Wish::Suspect,
        DialOutput::Recovered => Wish::Recovered,
        DialOutput::Sample(sample) => Wish::Sample(sample),
        DialOutput::Carries(size) => Wish::Carries(size),
        DialOutput::Down(reason) => Wish::Down(reason),
        DialOutput::Refused { reason, speaks, .. } => Wish::Refused(reason, speaks),
        DialOutput::Connect => Wish::Connect,
    }
}

fn accepted(output: Output) -> Wish {
    match output {
        Output::Transmit(bytes) => Wish::Transmit(bytes),
        Output::Message(message) => Wish::Message(message),
        Output::Suspect => Wish::Suspect,
        Output::Recovered => Wish::Recovered,
        Output::Sample(sample) => Wish::Sample(sample),
        Output::Carries(size) => Wish::Carries(size),
        Output::Down(reason) => Wish::Down(reason),
    }
}
