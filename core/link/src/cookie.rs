//! Proof that a dialer receives at the address it writes from, without memory of it.

use core::fmt;
use core::hash::{Hash as _, Hasher as _};
use core::net::SocketAddr;

use sangam_model::Time;
use siphasher::sip128::{Hash128, Hasher128 as _, SipHasher24};

/// Seconds a cookie is issued for; it is accepted until the end of the next period.
const PERIOD_S: u64 = 30;

/// Issues and verifies cookies: a keyed hash of address, nonce and time.
#[derive(Clone)]
pub struct CookieJar {
    secret: [u8; 16],
}

/// Who asks to come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The address its hello came from.
    pub address: SocketAddr,
    /// The nonce of its hello.
    pub nonce: u64,
}

impl CookieJar {
    /// A jar with a secret drawn at random; jars with one secret accept each other's cookies.
    #[must_use]
    pub const fn new(secret: [u8; 16]) -> Self {
        Self { secret }
    }

    /// The cookie for a caller. Good for 30 to 60 s.
    #[must_use]
    pub fn issue(&self, caller: Caller, now: Time) -> [u8; 16] {
        self.hash(caller, period(now)).as_bytes()
    }

    /// Whether `cookie` was issued to this caller in this or the last period.
    #[must_use]
    pub fn verify(&self, caller: Caller, cookie: &[u8; 16], now: Time) -> bool {
        let cookie = Hash128::from(u128::from_le_bytes(*cookie));
        let this = period(now);
        // Hash128 compares in constant time.
        self.hash(caller, this) == cookie || this > 0 && self.hash(caller, this - 1) == cookie
    }

    fn hash(&self, caller: Caller, period: u64) -> Hash128 {
        let mut hasher = SipHasher24::new_with_key(&self.secret);
        // A dual-stack socket sees an IPv4 peer as ::ffff:a.b.c.d.
        caller.address.ip().to_canonical().hash(&mut hasher);
        hasher.write_u16(caller.address.port());
        hasher.write_u64(caller.nonce);
        hasher.write_u64(period);
        hasher.finish128()
    }
}

impl fmt::Debug for CookieJar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CookieJar")
    }
}

fn period(now: Time) -> u64 {
    now.as_micros() / (PERIOD_S * 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const JAR: CookieJar = CookieJar::new(*b"sixteen byte key");

    fn caller(address: &str, nonce: u64) -> Caller {
        Caller {
            address: address.parse().unwrap(),
            nonce,
        }
    }

    fn at(seconds: u64) -> Time {
        Time::from_millis(seconds * 1_000)
    }

    #[test]
    fn a_cookie_is_good_for_its_address_and_nonce_only() {
        let cookie = JAR.issue(caller("192.0.2.1:5000", 7), at(100));
        let good = |address, nonce| JAR.verify(caller(address, nonce), &cookie, at(100));
        assert!(good("192.0.2.1:5000", 7));
        assert!(good("[::ffff:192.0.2.1]:5000", 7));
        assert!(!good("192.0.2.1:5001", 7));
        assert!(!good("192.0.2.2:5000", 7));
        assert!(!good("192.0.2.1:5000", 8));
        let other = CookieJar::new([0; 16]);
        assert!(!other.verify(caller("192.0.2.1:5000", 7), &cookie, at(100)));
    }

    #[test]
    fn a_cookie_is_good_for_one_more_period() {
        let client = caller("[2001:db8::1]:5000", 7);
        let cookie = JAR.issue(client, at(59));
        assert!(JAR.verify(client, &cookie, at(89)));
        assert!(!JAR.verify(client, &cookie, at(90)));
    }
}
