//! The video clip as numbers: `data/video-280k.csv`, made by `scripts/make-video-trace.sh`.

use super::Frame;

/// Frames of the clip each second.
pub(super) const FRAMES_PER_S: u64 = 15;

/// Largest payload of one packet. With 884 bytes the clip averages 47 packets/s of 745 bytes, as
/// the paper's did.
const PAYLOAD_MAX: u32 = 884;

/// The stamp must fit the smallest packet.
const PAYLOAD_MIN: u32 = super::stamp::LEN as u32;

const CLIP: &str = include_str!("../../data/video-280k.csv");

/// The clip's frames, cut into packets.
pub(super) fn frames() -> Vec<Frame> {
    CLIP.lines()
        .filter_map(parse)
        .map(|(bytes, key)| cut(bytes, key))
        .collect()
}

fn parse(line: &str) -> Option<(u32, bool)> {
    let (bytes, key) = line.split_once(',')?;
    Some((bytes.parse().ok()?, key == "1"))
}

/// Cuts a frame as evenly as it goes. RTP padding in the last packet (RFC 3550 section 5.1)
/// levels the rest, so that the frame leaves as one UDP_SEGMENT send.
fn cut(frame: u32, key: bool) -> Frame {
    let frame = frame.max(PAYLOAD_MIN);
    let packets = frame.div_ceil(PAYLOAD_MAX);
    let bytes = frame.div_ceil(packets);
    let padding = packets * bytes - frame;
    Frame {
        packets: packets as u16,
        bytes: bytes as u16,
        padding: padding as u8,
        key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sangam_model::limits::BURST_MAX;

    #[test]
    fn the_clip_lasts_two_minutes_and_begins_with_a_key_frame() {
        let frames = frames();
        assert_eq!(frames.len() as u64, 120 * FRAMES_PER_S);
        assert!(frames[0].key);
        assert_eq!(frames.iter().filter(|frame| frame.key).count(), 24);
    }

    #[test]
    fn every_frame_leaves_as_one_burst() {
        for frame in frames() {
            assert!(usize::from(frame.packets) <= BURST_MAX);
            assert!(u16::from(frame.padding) < frame.packets.max(2));
        }
    }

    #[test]
    fn frames_are_cut_evenly() {
        assert_eq!(
            cut(2_000, false),
            Frame {
                packets: 3,
                bytes: 667,
                padding: 1,
                key: false
            }
        );
        assert_eq!(
            cut(884, true),
            Frame {
                packets: 1,
                bytes: 884,
                padding: 0,
                key: true
            }
        );
    }
}
