//! An invitation that calendars understand (RFC 5545), with the ways in (RFC 7986).

use std::fmt::Write;

use sangam_session::{Session, State, Way};
use time::OffsetDateTime;

/// What an invitation without an end lasts, in milliseconds.
const LENGTH_MS: u64 = 3_600_000;
/// RFC 5545 section 3.1: octets of a line, without its end.
const LINE: usize = 75;

/// The invitation to a session. `link` is where people join; `now_ms` when this is written.
#[must_use]
pub fn invitation(session: &Session, link: &str, now_ms: u64) -> String {
    let (id, plan) = (session.id(), session.plan());
    let start = plan.start_ms.unwrap_or(now_ms);
    let end = plan.end_ms.unwrap_or(start + LENGTH_MS);
    let status = match session.state() {
        State::Canceled => "CANCELLED",
        _ => "CONFIRMED",
    };
    let title = escape(&plan.title);
    let mut told = link.to_owned();
    for way in &plan.ways {
        // Writing to a String cannot fail.
        let _ = write!(told, "\n{}: {}", way.label, way.uri);
    }
    let head = [
        "BEGIN:VCALENDAR".to_owned(),
        "VERSION:2.0".to_owned(),
        "PRODID:-//Sangam//XGSP//EN".to_owned(),
        "METHOD:PUBLISH".to_owned(),
        "BEGIN:VEVENT".to_owned(),
        // The same session is the same entry, however often it is sent.
        format!("UID:{}.{}@sangam", id.name, id.tenant),
        format!("SEQUENCE:{}", session.seq()),
        format!("DTSTAMP:{}", utc(now_ms)),
        format!("DTSTART:{}", utc(start)),
        format!("DTEND:{}", utc(end)),
        format!("SUMMARY:{title}"),
        format!("DESCRIPTION:{}", escape(&told)),
        format!("URL:{link}"),
        format!("STATUS:{status}"),
    ];
    let ways = plan.ways.iter().map(conference);
    let tail = ["END:VEVENT".to_owned(), "END:VCALENDAR".to_owned()];
    let lines = head.into_iter().chain(ways).chain(tail);
    lines.map(|line| fold(&line)).collect()
}

/// RFC 7986 section 5.11, by which phones dial and calendars offer to join.
fn conference(way: &Way) -> String {
    let feature = match way.scheme() {
        Some("tel") => "PHONE",
        _ => "AUDIO,VIDEO",
    };
    let (label, uri) = (quoted(&way.label), &way.uri);
    format!("CONFERENCE;VALUE=URI;FEATURE={feature};LABEL={label}:{uri}")
}

/// RFC 5545 section 3.2, and RFC 6868 for what has no place in quotation marks.
fn quoted(text: &str) -> String {
    let plain = text.replace('^', "^^").replace('"', "^'");
    let plain: String = plain.chars().filter(|c| !c.is_control()).collect();
    format!("\"{plain}\"")
}

/// RFC 5545 section 3.3.5, form 2.
fn utc(ms: u64) -> String {
    let seconds = i64::try_from(ms / 1_000).unwrap_or(i64::MAX);
    let moment = OffsetDateTime::from_unix_timestamp(seconds);
    let moment = moment.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (hour, minute, second) = moment.to_hms();
    let (year, month, day) = (moment.year(), u8::from(moment.month()), moment.day());
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// RFC 5545 section 3.3.11.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' | ';' | ',' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out += "\\n",
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

/// RFC 5545 section 3.1: long lines go on after a line end and a space, never within a character.
fn fold(line: &str) -> String {
    let mut out = String::new();
    let mut used = 0;
    for c in line.chars() {
        if used + c.len_utf8() > LINE {
            out += "\r\n ";
            used = 1;
        }
        // Writing to a String cannot fail.
        let _ = out.write_char(c);
        used += c.len_utf8();
    }
    out + "\r\n"
}

#[cfg(test)]
mod tests {
    use sangam_model::Time;
    use sangam_session::{Machine, Plan, SessionId};

    use super::*;

    #[test]
    fn an_invitation_names_when_and_where_in_lines_of_bounded_length() {
        let id = SessionId::new("acme", "weekly").unwrap();
        let plan = Plan {
            start_ms: Some(1_795_248_000_000),
            end_ms: Some(1_795_251_600_000),
            ..Plan::titled(&format!("Plan; review, {}", "ש".repeat(60)))
        };
        let machine = Machine::create(Time::from_millis(1), id, plan, 1).unwrap();
        let text = invitation(
            machine.session(),
            "https://meet.example.org/acme/weekly",
            1_000,
        );
        for line in [
            "BEGIN:VCALENDAR\r\nVERSION:2.0\r\n",
            "UID:weekly.acme@sangam\r\n",
            "DTSTAMP:19700101T000001Z\r\n",
            "DTSTART:20261121T080000Z\r\n",
            "DTEND:20261121T090000Z\r\n",
            "SUMMARY:Plan\\; review\\, ש",
            "URL:https://meet.example.org/acme/weekly\r\n",
            "END:VCALENDAR\r\n",
        ] {
            assert!(text.contains(line), "{line:?} is missing in {text}");
        }
        assert!(text.split("\r\n").all(|line| line.len() <= LINE), "{text}");
        assert!(text.contains("\r\n ש"), "{text}");
    }

    #[test]
    fn an_invitation_has_every_way_in_to_be_read_and_to_be_dialled() {
        let way = |label: &str, uri: &str| Way {
            label: label.to_owned(),
            uri: uri.to_owned(),
        };
        let id = SessionId::new("acme", "weekly").unwrap();
        let plan = Plan {
            ways: vec![
                way("Berlin, \"free\"^", "tel:+49-30-1234,,4711%23"),
                way("Room", "sip:weekly@sip.example.org"),
            ],
            ..Plan::titled("Weekly")
        };
        let machine = Machine::create(Time::from_millis(1), id, plan, 1).unwrap();
        let text = invitation(machine.session(), "https://meet.example.org/acme/weekly", 1);
        assert!(text.split("\r\n").all(|line| line.len() <= LINE), "{text}");
        let whole = text.replace("\r\n ", "");
        for line in [
            "DESCRIPTION:https://meet.example.org/acme/weekly\\nBerlin\\, \"free\"^: \
             tel:+49-30-1234\\,\\,4711%23\\nRoom: sip:weekly@sip.example.org\r\n",
            "CONFERENCE;VALUE=URI;FEATURE=PHONE;LABEL=\"Berlin, ^'free^'^^\":\
             tel:+49-30-1234,,4711%23\r\n",
            "CONFERENCE;VALUE=URI;FEATURE=AUDIO,VIDEO;LABEL=\"Room\":\
             sip:weekly@sip.example.org\r\n",
        ] {
            assert!(whole.contains(line), "{line:?} is missing in {whole}");
        }
    }
}
