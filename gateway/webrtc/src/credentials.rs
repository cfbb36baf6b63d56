//! ICE credentials that name the shard of their peer.
//!
//! Every STUN request holds the user fragment that we gave, so whichever shard receives it knows
//! whose it is without a table that all would have to share.

use aws_lc_rs::rand;
use str0m::IceCreds;

/// RFC 8445 section 5.3: letters, digits, plus and slash.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Characters of a user fragment: one for the shard, and 66 bits of chance.
pub(crate) const UFRAG_LEN: usize = 12;
/// Characters of a password: 144 bits of chance; RFC 8445 section 5.3 wants 128.
const PASSWORD_LEN: usize = 24;
/// STUN, RFC 8489 section 5: header, magic cookie.
const HEADER_LEN: usize = 20;
const COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
const BINDING_REQUEST: [u8; 2] = [0, 1];
const USERNAME: u16 = 6;

/// A user fragment of ours.
pub(crate) type Ufrag = [u8; UFRAG_LEN];

/// Fresh credentials for a peer of this shard; `None` if the system gives no randomness.
pub(crate) fn draw(shard: u16) -> Option<IceCreds> {
    let mut bytes = [0; UFRAG_LEN + PASSWORD_LEN];
    rand::fill(&mut bytes).ok()?;
    bytes[0] = u8::try_from(shard).ok()?;
    let text: String = bytes
        .iter()
        .map(|byte| char::from(ALPHABET[usize::from(byte % 64)]))
        .collect();
    let (ufrag, pass) = text.split_at(UFRAG_LEN);
    Some(IceCreds {
        ufrag: ufrag.to_owned(),
        pass: pass.to_owned(),
    })
}

/// As it stands in a table; `None` if it is none of ours.
pub(crate) fn ufrag(text: &str) -> Option<Ufrag> {
    text.as_bytes().try_into().ok()
}

/// The shard that a user fragment names.
pub(crate) fn shard_of(ufrag: &Ufrag) -> Option<u16> {
    let place = ALPHABET.iter().position(|known| *known == ufrag[0]);
    place.and_then(|shard| u16::try_from(shard).ok())
}

/// Our user fragment in a STUN binding request; `None` if it is no such request.
///
/// RFC 8445 section 7.2.2: the name is ours, a colon, and the caller's.
pub(crate) fn addressee(stun: &[u8]) -> Option<Ufrag> {
    let (header, mut rest) = stun.split_at_checked(HEADER_LEN)?;
    if header[..2] != BINDING_REQUEST || header[4..8] != COOKIE {
        return None;
    }
    while let [t0, t1, l0, l1, tail @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*l0, *l1]));
        if u16::from_be_bytes([*t0, *t1]) == USERNAME {
            let name = tail.get(..len)?;
            let (ufrag, colon) = name.split_first_chunk()?;
            return (colon.first() == Some(&b':')).then_some(*ufrag);
        }
        // RFC 8489 section 14: values are padded to a whole word.
        rest = tail.get(len.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(name: &[u8]) -> Vec<u8> {
        let mut out = [&BINDING_REQUEST[..], &[0, 0], &COOKIE, &[7; 12]].concat();
        // Another attribute of three bytes first.
        out.extend([0x80, 0x22, 0, 3, b'x', b'y', b'z', 0]);
        out.extend([0, 6, 0, name.len() as u8]);
        out.extend(name);
        out.resize(out.len().next_multiple_of(4), 0);
        out
    }

    #[test]
    fn a_request_names_the_shard_of_its_peer() {
        for shard in [0, 1, 63] {
            let creds = draw(shard).unwrap();
            let name = format!("{}:theirs", creds.ufrag);
            let found = addressee(&request(name.as_bytes())).unwrap();
            assert_eq!(Some(found), ufrag(&creds.ufrag));
            assert_eq!(shard_of(&found), Some(shard));
        }
    }

    #[test]
    fn what_is_no_request_with_a_name_of_ours_is_nobodys() {
        let good = request(b"ABCDEFGHIJKL:x");
        assert!(addressee(&good).is_some());
        for len in 0..good.len() - 2 {
            assert!(addressee(&good[..len]).is_none(), "{len} bytes");
        }
        for name in [&b"short:x"[..], b"ABCDEFGHIJKLM:x", b"ABCDEFGHIJKL", b""] {
            assert!(addressee(&request(name)).is_none(), "{name:?}");
        }
        let mut answer = good;
        answer[0] = 1;
        assert!(addressee(&answer).is_none());
    }

    #[test]
    fn shards_beyond_the_alphabet_have_no_credentials_that_lie() {
        assert!(draw(256).is_none());
        assert_ne!(draw(3).unwrap(), draw(3).unwrap());
    }
}
