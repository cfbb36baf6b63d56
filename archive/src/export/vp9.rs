//! VP9 in packets (RFC 9628), its key frames' headers (VP9 bitstream specification) and what files
//! are told of it (WebM Project, "VP Codec ISO Media File Format Binding").

use h264_reader::rbsp::{BitRead, BitReader, BitReaderError};
use mp4_atom::VpcC;

use super::codec::Size;

/// Samples of the largest picture of each level (VP9 levels, WebM Project).
const LEVELS: [(u32, u8); 8] = [
    (36_864, 10),
    (73_728, 11),
    (122_880, 20),
    (245_760, 21),
    (552_960, 30),
    (983_040, 31),
    (2_228_224, 41),
    (8_912_896, 52),
];
/// That of larger ones.
const LEVEL_MAX: u8 = 62;
/// Not said (ISO/IEC 23091-2), for primaries, transfer and matrix.
const UNSPECIFIED: u8 = 2;
/// Bitstream specification section 7.2: what follows the first byte of a key frame.
const SYNC: u32 = 0x49_83_42;
/// `CS_RGB` of section 7.2.2.
const RGB: u8 = 7;

/// What key frames say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Vp9 {
    pub(super) size: Size,
    pub(super) config: VpcC,
}

/// One payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Payload<'a> {
    /// Whether a frame begins here.
    pub(super) starts: bool,
    /// Spatial layer, from 0.
    pub(super) layer: u8,
    pub(super) frame: &'a [u8],
}

/// RFC 9628 section 4.2: the bits I, P, L, F, B, E, V and Z, and what they announce.
pub(super) fn payload(bytes: &[u8]) -> Option<Payload<'_>> {
    let (first, mut rest) = bytes.split_first()?;
    let has = |bit: u8| first & bit != 0;
    if has(0x80) {
        let long = rest.first()? & 0x80 != 0;
        rest = rest.get(if long { 2 } else { 1 }..)?;
    }
    let mut layer = 0;
    if has(0x20) {
        layer = rest.first()? >> 1 & 7;
        // Without references given, the index of the lowest temporal layer follows.
        rest = rest.get(if has(0x10) { 1 } else { 2 }..)?;
    }
    if has(0x40) && has(0x10) {
        let more = rest.iter().take(3).take_while(|at| **at & 1 != 0).count();
        rest = rest.get((more + 1).min(3)..)?;
    }
    if has(0x02) {
        rest = structure(rest)?;
    }
    Some(Payload {
        starts: has(0x08) && layer == 0,
        layer,
        frame: rest,
    })
}

/// Section 4.2.1: sizes of the layers and the pictures of a group; what stands behind.
fn structure(bytes: &[u8]) -> Option<&[u8]> {
    let (first, mut rest) = bytes.split_first()?;
    if first & 0x10 != 0 {
        rest = rest.get((usize::from(first >> 5) + 1) * 4..)?;
    }
    if first & 0x08 != 0 {
        let (pictures, tail) = rest.split_first()?;
        rest = tail;
        for _ in 0..*pictures {
            let references = rest.first()? >> 2 & 3;
            rest = rest.get(usize::from(references) + 1..)?;
        }
    }
    Some(rest)
}

/// Size and samples of a key frame (bitstream specification section 6.2); `None` of others.
pub(super) fn key_frame(frame: &[u8]) -> Option<Vp9> {
    header(frame).ok().flatten()
}

fn header(frame: &[u8]) -> Result<Option<Vp9>, BitReaderError> {
    let mut bits = BitReader::new(frame);
    let marker: u8 = bits.read(2, "frame_marker")?;
    let low: u8 = bits.read(1, "profile_low_bit")?;
    let high: u8 = bits.read(1, "profile_high_bit")?;
    let profile = high << 1 | low;
    if profile == 3 {
        bits.skip(1, "reserved_zero")?;
    }
    let repeats = bits.read_bool("show_existing_frame")?;
    let depends = bits.read_bool("frame_type")?;
    bits.skip(2, "show_frame, error_resilient_mode")?;
    if marker != 2 || repeats || depends || bits.read::<u32>(24, "frame_sync_code")? != SYNC {
        return Ok(None);
    }
    let deep = profile >= 2 && bits.read_bool("ten_or_twelve_bit")?;
    let space: u8 = bits.read(3, "color_space")?;
    let mut config = VpcC {
        profile,
        bit_depth: match (profile, deep) {
            (0 | 1, _) => 8,
            (_, false) => 10,
            (_, true) => 12,
        },
        color_primaries: UNSPECIFIED,
        transfer_characteristics: UNSPECIFIED,
        matrix_coefficients: UNSPECIFIED,
        ..VpcC::default()
    };
    let wide = profile & 1 != 0;
    if space == RGB {
        config.video_full_range_flag = true;
        config.matrix_coefficients = 0;
        bits.skip(u32::from(wide), "reserved_zero")?;
    } else {
        config.video_full_range_flag = bits.read_bool("color_range")?;
    }
    // The binding's values: 1 is 4:2:0, 2 is 4:2:2, 3 is 4:4:4.
    config.chroma_subsampling = match (wide, space == RGB) {
        (false, _) => 1,
        (true, true) => 3,
        (true, false) => {
            let across = bits.read_bool("subsampling_x")?;
            bits.skip(2, "subsampling_y, reserved_zero")?;
            if across { 2 } else { 3 }
        }
    };
    let width: u16 = bits.read(16, "frame_width_minus_1")?;
    let height: u16 = bits.read(16, "frame_height_minus_1")?;
    let size = (width.saturating_add(1), height.saturating_add(1));
    let samples = u32::from(size.0) * u32::from(size.1);
    let level = LEVELS.iter().find(|(most, _)| samples <= *most);
    config.level = level.map_or(LEVEL_MAX, |(_, level)| *level);
    Ok(Some(Vp9 { size, config }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_of_every_shape_are_passed_over() {
        let frame = [0x82, 0x49];
        // With: nothing, a short id, a long one, layers, references, a structure.
        let heads: [(&[u8], bool, u8); 7] = [
            (&[0x08], true, 0),
            (&[0x88, 0x11], true, 0),
            (&[0x88, 0x91, 0x11], true, 0),
            (&[0x28, 0x00, 0x07], true, 0),
            (&[0x28, 0x02, 0x07], false, 1),
            (&[0x50, 0x03, 0x02], false, 0),
            (&[0x0a, 0x18, 1, 64, 0, 180, 1, 0x04, 0x02], true, 0),
        ];
        for (head, starts, layer) in heads {
            let bytes = [head, &frame].concat();
            let want = Payload {
                starts,
                layer,
                frame: &frame,
            };
            assert_eq!(payload(&bytes), Some(want), "{head:?}");
            for len in 0..head.len() {
                assert_eq!(
                    payload(&head[..len]).filter(|it| !it.frame.is_empty()),
                    None
                );
            }
        }
    }
}
