//! Texts that people write, and what may stand in them.

use crate::Refusal;
use crate::limits::{LEVEL_LEN_MAX, NAME_CHARS_MAX, WORD_LEN_MAX};

/// A name or title: letters of every script and direction, and no more of them than fit a screen.
///
/// # Errors
/// [`Refusal::Text`] says which rule it breaks.
pub(crate) fn name(what: &'static str, text: &str) -> Result<String, Refusal> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Refusal::Text(what, "is empty"));
    }
    // Counted by bytes first: 10,000 characters are not looked at one by one.
    if text.len() > NAME_CHARS_MAX * 4 || text.chars().count() > NAME_CHARS_MAX {
        return Err(Refusal::Text(what, "has more than 100 characters"));
    }
    printable(what, text)?;
    Ok(text.to_owned())
}

/// Text without what could make others' text look different.
pub(crate) fn printable(what: &'static str, text: &str) -> Result<(), Refusal> {
    // Unicode Standard Annex 9, section 2: embeddings, overrides and isolates reach beyond the
    // name they stand in. Marks (U+200E, U+200F, U+061C) do not, and right-to-left names need them.
    let reaches_out = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if text
        .chars()
        .any(|c| (c.is_control() && c != '\n') || reaches_out(c))
    {
        return Err(Refusal::Text(
            what,
            "holds control characters or marks that turn the direction of other text",
        ));
    }
    Ok(())
}

/// A tenant, session or room: one level of a topic and one part of a path.
pub(crate) fn level(what: &'static str, text: &str) -> Result<String, Refusal> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || text.len() > LEVEL_LEN_MAX {
        return Err(Refusal::Text(what, "has between 1 and 48 characters"));
    }
    if !text.bytes().all(plain) || text.starts_with('.') {
        return Err(Refusal::Text(
            what,
            "is made of a-z, A-Z, 0-9, '-', '_' and '.', and does not begin with '.'",
        ));
    }
    Ok(text.to_owned())
}

/// A capability or the name of a service.
pub(crate) fn word(what: &'static str, text: &str) -> Result<(), Refusal> {
    let plain = |byte: u8| byte.is_ascii_graphic();
    if text.is_empty() || text.len() > WORD_LEN_MAX || !text.bytes().all(plain) {
        return Err(Refusal::Text(
            what,
            "has 1 to 32 printable ASCII characters",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_script_are_taken_and_endless_ones_refused() {
        for good in [
            "Anna",
            "  אנה ",
            "محمد علي",
            "\u{200f}شيرين",
            "王小明",
            "👩‍🔬 Ada",
        ] {
            assert!(name("name", good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "  ",
            "a\u{202e}nna",
            "a\u{2067}b",
            "a\u{7}",
            &"x".repeat(10_000),
        ] {
            assert!(name("name", bad).is_err(), "{bad:?}");
        }
        assert!(name("name", &"ش".repeat(100)).is_ok());
        assert!(name("name", &"ش".repeat(101)).is_err());
    }

    #[test]
    fn a_level_fits_a_topic_and_a_path() {
        for good in ["weekly", "team-7", "a.b_c"] {
            assert!(level("session", good).is_ok(), "{good}");
        }
        for bad in ["", "a/b", "+", "#", "..", ".x", "ä", &"x".repeat(49)] {
            assert!(level("session", bad).is_err(), "{bad}");
        }
    }
}
