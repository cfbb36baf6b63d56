//! The client's token and what the broker says to it.

use sangam_wire::{Message, Refusal};

use crate::Token;

/// A token that is shown on every link, and exchanged for newer ones.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) token: Token,
    /// Under which it was shown last.
    request: u32,
    /// Under which the broker has last accepted one, be it this or an older one.
    accepted: Option<u32>,
    /// Whether that one is still in force.
    valid: bool,
    /// Why the one shown last is refused.
    refused: Option<Refusal>,
    /// What was asked for has ended, and rests until a token is accepted.
    resting: bool,
}

impl Pass {
    pub(crate) fn new(token: Token) -> Self {
        Self {
            token,
            request: 0,
            accepted: None,
            valid: false,
            refused: None,
            resting: false,
        }
    }

    /// A new link: nothing is accepted there yet, and everything will be asked for.
    pub(crate) fn forget(&mut self) {
        (self.accepted, self.valid, self.resting) = (None, false, false);
    }

    /// Another link has taken over, on which it was shown: what the one there had accepted counts
    /// no more.
    pub(crate) fn moved(&mut self) {
        if self.accepted != Some(self.request) {
            self.valid = false;
            self.resting = self.refused.is_some();
        }
    }

    pub(crate) fn show(&mut self, request: u32) -> Message {
        self.request = request;
        self.refused = None;
        Message::Authenticate {
            request,
            token: self.token.text().to_owned(),
        }
    }

    /// Whether the request was about a token.
    pub(crate) fn is_about(&self, request: u32) -> bool {
        self.request == request || self.accepted == Some(request)
    }

    /// The broker accepts what was shown under `request`; whether what rests is to be asked for
    /// now.
    pub(crate) fn accept(&mut self, request: u32) -> bool {
        if self.request != request {
            // An even newer one is under way.
            return false;
        }
        (self.accepted, self.valid) = (Some(request), true);
        std::mem::take(&mut self.resting)
    }

    /// The broker refuses what was shown under `request`, or its time is over; whether everything
    /// that was asked for has ended with it.
    pub(crate) fn refuse(&mut self, request: u32, reason: Refusal) -> bool {
        if self.request == request {
            self.refused = Some(reason);
        }
        if self.accepted == Some(request) {
            self.valid = false;
        }
        self.resting |= !self.valid && self.is_about(request);
        !self.valid && self.is_about(request)
    }

    /// Whether the client may do anything; `None` as long as the broker says nothing.
    pub(crate) fn verdict(&self) -> Option<Result<(), Refusal>> {
        if self.valid {
            return Some(Ok(()));
        }
        self.refused.map(Err)
    }
}
