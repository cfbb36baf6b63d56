//! The acceptor's answer to a hello, without memory.

use core::net::SocketAddr;

use sangam_model::Time;
use sangam_wire::{Frame, Hello, Refusal, Refuse, VERSION};

use crate::{Caller, CookieJar};

/// Judges hellos. Cheap to clone; every thread may hold one with the same secret.
#[derive(Clone, Debug)]
pub struct Acceptor {
    jar: CookieJar,
}

/// What to do with a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send this [`Frame::Retry`] back and forget the hello. Also the answer to a cookie that is
    /// too old, forged or was issued to another address.
    Retry(Frame<'static>),
    /// Send this [`Frame::Refuse`] back and forget the hello.
    Refuse(Frame<'static>),
    /// The dialer receives at its address. Whether there is room for it is for the caller to
    /// say. A hello with a nonce that was accepted from this address already is a repetition:
    /// answer it with the same welcome. Of a client it is a sign of life
    /// ([`crate::Session::heard`]); of a broker, whose silence is judged by what follows the
    /// welcome, it is none.
    Accept {
        /// The version to use.
        version: u8,
    },
}

impl Acceptor {
    /// An acceptor with a secret drawn at random.
    #[must_use]
    pub const fn new(secret: [u8; 16]) -> Self {
        Self {
            jar: CookieJar::new(secret),
        }
    }

    /// Judges a hello that came in a datagram from `source`.
    ///
    /// A hello of a foreign version that cannot even be decoded is answered by
    /// [`Refuse::version`].
    #[must_use]
    pub fn judge(&self, hello: &Hello, source: SocketAddr, now: Time) -> Verdict {
        let verdict = self.judge_stream(hello);
        if !matches!(verdict, Verdict::Accept { .. }) {
            return verdict;
        }
        let caller = Caller {
            address: source,
            nonce: hello.nonce,
        };
        match &hello.cookie {
            Some(cookie) if self.jar.verify(caller, cookie, now) => verdict,
            _ => Verdict::Retry(Frame::Retry {
                nonce: hello.nonce,
                cookie: self.jar.issue(caller, now),
            }),
        }
    }

    /// Judges a hello that came over a byte stream, which proves the address by itself.
    #[must_use]
    pub fn judge_stream(&self, hello: &Hello) -> Verdict {
        if !(hello.version_min..=hello.version_max).contains(&VERSION) {
            return Verdict::Refuse(Frame::Refuse(Refuse {
                nonce: hello.nonce,
                reason: Refusal::Version,
                retry_after_ms: 0,
                speaks: VERSION,
            }));
        }
        Verdict::Accept { version: VERSION }
    }
}

#[cfg(test)]
mod tests {
    use sangam_wire::{Capabilities, Role};

    use super::*;

    fn hello(cookie: Option<[u8; 16]>) -> Hello {
        Hello {
            role: Role::Client,
            version_min: VERSION,
            version_max: VERSION,
            capabilities: Capabilities::OURS,
            nonce: 7,
            datagram_max: 1_472,
            clock_domain: 1,
            cookie,
        }
    }

    fn cookie_for(acceptor: &Acceptor, source: &str) -> [u8; 16] {
        match acceptor.judge(&hello(None), source.parse().unwrap(), Time::ZERO) {
            Verdict::Retry(Frame::Retry { nonce: 7, cookie }) => cookie,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_hello_is_accepted_when_it_brings_its_cookie() {
        let acceptor = Acceptor::new([1; 16]);
        let cookie = cookie_for(&acceptor, "192.0.2.1:9");
        let verdict = acceptor.judge(
            &hello(Some(cookie)),
            "192.0.2.1:9".parse().unwrap(),
            Time::ZERO,
        );
        assert_eq!(verdict, Verdict::Accept { version: VERSION });
    }

    #[test]
    fn a_cookie_from_another_address_is_not_accepted() {
        let acceptor = Acceptor::new([1; 16]);
        let cookie = cookie_for(&acceptor, "192.0.2.1:9");
        let verdict = acceptor.judge(
            &hello(Some(cookie)),
            "192.0.2.2:9".parse().unwrap(),
            Time::ZERO,
        );
        assert!(matches!(verdict, Verdict::Retry(_)), "{verdict:?}");
    }

    #[test]
    fn foreign_versions_are_refused() {
        let acceptor = Acceptor::new([1; 16]);
        let older = Hello {
            version_min: 1,
            version_max: VERSION - 1,
            ..hello(None)
        };
        let newer = Hello {
            version_min: VERSION + 1,
            version_max: 15,
            ..hello(None)
        };
        for hello in [older, newer] {
            let verdict = acceptor.judge(&hello, "[::1]:9".parse().unwrap(), Time::ZERO);
            let Verdict::Refuse(Frame::Refuse(Refuse {
                nonce: 7, reason, ..
            })) = verdict
            else {
                panic!("{verdict:?}");
            };
            assert_eq!(reason, Refusal::Version);
        }
    }
}
