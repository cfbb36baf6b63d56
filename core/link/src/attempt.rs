//! One hello and its repetitions, until it is answered.

use core::time::Duration;

use sangam_model::Time;
use sangam_wire::{Frame, HELLO_LEN, Hello, VERSION};

use crate::dialer::DialerConfig;

#[derive(Debug)]
pub(crate) struct Attempt {
    nonce: u64,
    cookie: Option<[u8; 16]>,
    /// A cookie was taken since the last timeout: a broker that never likes its own cookies must
    /// not make a busy loop.
    retried: bool,
    /// Timeouts in a row.
    timeouts: u32,
    /// When the hello in question was sent; `None` if that was more than once.
    sent: Option<Time>,
    again_at: Time,
}

impl Attempt {
    pub(crate) fn new(nonce: u64, now: Time, patience: Duration) -> Self {
        Self {
            nonce,
            cookie: None,
            retried: false,
            timeouts: 0,
            sent: Some(now),
            again_at: now + patience,
        }
    }

    pub(crate) fn nonce(&self) -> u64 {
        self.nonce
    }

    pub(crate) fn again_at(&self) -> Time {
        self.again_at
    }

    /// The round trip if an answer comes now and can only be to the last hello.
    pub(crate) fn rtt(&self, now: Time) -> Option<Duration> {
        self.sent.map(|sent| now - sent)
    }

    /// Takes a cookie. True: say hello again, at once.
    pub(crate) fn retry(&mut self, cookie: [u8; 16], now: Time, patience: Duration) -> bool {
        if self.retried {
            return false;
        }
        if self.cookie.replace(cookie).is_none() {
            self.timeouts = 0;
        }
        self.retried = true;
        self.sent = Some(now);
        self.again_at = now + patience;
        true
    }

    /// Nothing came in time; returns how often in a row.
    pub(crate) fn timeout(&mut self) -> u32 {
        self.timeouts += 1;
        self.timeouts
    }

    /// The hello is said again, unchanged.
    pub(crate) fn repeat(&mut self, now: Time, patience: Duration) {
        self.retried = false;
        self.sent = None;
        self.again_at = now + patience;
    }

    pub(crate) fn hello(&self, config: &DialerConfig) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HELLO_LEN);
        let hello = Hello {
            role: config.role,
            version_min: VERSION,
            version_max: VERSION,
            capabilities: config.capabilities,
            nonce: self.nonce,
            datagram_max: config.datagram_max,
            clock_domain: config.clock_domain,
            cookie: self.cookie,
        };
        Frame::Hello(hello).encode(&mut bytes);
        bytes
    }
}
