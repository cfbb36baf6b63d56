//! What a frame of a session server is, as far as members look.

/// Bytes of a frame's end that are looked at: the server writes a frame's number and type behind
/// what may be long.
const TAIL: usize = 512;

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// What happened, up to this number.
    Events(u64),
    /// The whole session as of this number.
    State(u64),
    /// The answer to a command or a greeting: no.
    Refused,
    /// Anything else.
    Other,
}

impl Frame {
    /// Looks at a frame.
    pub(super) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let tail = &bytes[bytes.len().saturating_sub(TAIL)..];
        let is = |kind: &[u8]| last(tail, kind).is_some();
        let number = || {
            let at = last(tail, b"\"seq\":")? + b"\"seq\":".len();
            let digits = tail[at..].iter().take_while(|byte| byte.is_ascii_digit());
            let digit = |number: u64, byte: &u8| number * 10 + u64::from(byte - b'0');
            Some(digits.fold(0, digit))
        };
        if is(b"\"type\":\"events\"") {
            number().map_or(Self::Other, Self::Events)
        } else if is(b"\"type\":\"state\"") {
            number().map_or(Self::Other, Self::State)
        } else if is(b"\"type\":\"refused\"") {
            Self::Refused
        } else {
            Self::Other
        }
    }
}

/// Where something stands last.
fn last(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).rposition(|one| one == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_the_number_of_its_last_event() {
        let events = r#"{"events":[{"event":"chat","seq":41,"text":"\"seq\":7"},{"seq":42}],"#;
        let events = format!("{events}\"seq\":42,\"type\":\"events\"}}");
        assert_eq!(Frame::of(&events), Frame::Events(42));
        let chat = "x".repeat(2_000);
        let state = format!(
            r#"{{"session":{{"chat":"{chat}","seq":17,"state":"activated"}},"type":"state"}}"#
        );
        assert_eq!(Frame::of(&state), Frame::State(17));
        assert_eq!(Frame::of(r#"{"id":1,"type":"refused"}"#), Frame::Refused);
        assert_eq!(Frame::of(r#"{"id":1,"type":"done"}"#), Frame::Other);
    }
}
