//! H.265 in packets (RFC 7798) and what files are told of it (ISO/IEC 14496-15 section 8.3).

use core::num::NonZeroUsize;

use h264_reader::rbsp::{BitRead, BitReader, BitReaderError, ByteReader};
use mp4_atom::{HvcCArray, Hvcc};

use super::codec::{Size, decoded};

/// The header of a unit, which no escape stands in (ITU-T H.265 section 7.3.1.2).
const HEADER: NonZeroUsize = NonZeroUsize::new(2).unwrap();
/// Video, sequence and picture parameter sets (table 7-1).
const SETS: [u8; 3] = [32, 33, 34];
const SEQUENCE: u8 = 33;
/// An access unit delimiter.
pub(super) const DELIMITER: u8 = 35;
/// RFC 7798 section 4.4.2: several units in one packet.
const AGGREGATE: u8 = 48;
/// Section 4.4.3: a piece of one.
pub(super) const FRAGMENT: u8 = 49;

/// Parameter sets and what they say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct H265 {
    /// In the order of [`SETS`].
    pub(super) sets: [Vec<u8>; 3],
    pub(super) size: Size,
    /// Without the sets.
    head: Hvcc,
}

/// What kind of unit begins with this byte.
pub(super) const fn kind(first: u8) -> u8 {
    first >> 1 & 0x3f
}

/// Hands on the units of a payload that holds whole ones. False if it does not.
pub(super) fn units(payload: &[u8], mut take: impl FnMut(&[u8])) -> bool {
    match *payload {
        [first, _, ref rest @ ..] if kind(first) == AGGREGATE => {
            super::frames::aggregated(rest, take)
        }
        [first, _, ..] if kind(first) < AGGREGATE => {
            take(payload);
            true
        }
        _ => false,
    }
}

impl H265 {
    /// RFC 7798 section 7.1: `sprop-vps`, `sprop-sps` and `sprop-pps`.
    pub(super) fn from_fmtp(fmtp: &str) -> Self {
        let mut sets = Self::default();
        for name in ["sprop-vps", "sprop-sps", "sprop-pps"] {
            decoded(fmtp, name, |unit| sets.learn(unit));
        }
        sets
    }

    /// Takes a unit if it is the first parameter set of its kind.
    pub(super) fn learn(&mut self, unit: &[u8]) {
        let kind = unit.first().map(|first| kind(*first));
        let Some(place) = SETS.iter().position(|set| Some(*set) == kind) else {
            return;
        };
        if !self.sets[place].is_empty() || u16::try_from(unit.len()).is_err() {
            return;
        }
        if kind == Some(SEQUENCE) {
            let Ok((head, size)) = sequence(unit) else {
                return;
            };
            (self.head, self.size) = (head, size);
        }
        self.sets[place] = unit.to_vec();
    }

    pub(super) fn is_complete(&self) -> bool {
        let (width, height) = self.size;
        width > 0 && height > 0 && self.sets.iter().all(|set| !set.is_empty())
    }

    /// `HEVCDecoderConfigurationRecord`, with lengths of four bytes.
    pub(super) fn config(&self) -> Hvcc {
        let array = |(kind, unit): (&u8, &Vec<u8>)| HvcCArray {
            completeness: true,
            nal_unit_type: *kind,
            nalus: vec![unit.clone()],
        };
        Hvcc {
            arrays: SETS.iter().zip(&self.sets).map(array).collect(),
            ..self.head.clone()
        }
    }
}

/// A sequence parameter set as far as the size of the picture and the depth of its samples
/// (ITU-T H.265 section 7.3.2.2.1).
fn sequence(unit: &[u8]) -> Result<(Hvcc, Size), BitReaderError> {
    let mut bits = BitReader::new(ByteReader::skipping_bytes(unit, HEADER));
    bits.skip(4, "sps_video_parameter_set_id")?;
    let layers: u8 = bits.read(3, "sps_max_sub_layers_minus1")?;
    let mut head = Hvcc {
        num_temporal_layers: layers + 1,
        temporal_id_nested: bits.read_bool("sps_temporal_id_nesting_flag")?,
        length_size_minus_one: 3,
        ..Hvcc::new()
    };
    levels(&mut bits, layers, &mut head)?;
    bits.read_ue("sps_seq_parameter_set_id")?;
    head.chroma_format_idc = bits.read_ue("chroma_format_idc")? as u8;
    if head.chroma_format_idc == 3 {
        bits.skip(1, "separate_colour_plane_flag")?;
    }
    let width = bits.read_ue("pic_width_in_luma_samples")?;
    let height = bits.read_ue("pic_height_in_luma_samples")?;
    let mut cut = [0; 4];
    if bits.read_bool("conformance_window_flag")? {
        for side in &mut cut {
            *side = bits.read_ue("conf_win_offset")?;
        }
    }
    head.bit_depth_luma_minus8 = bits.read_ue("bit_depth_luma_minus8")? as u8;
    head.bit_depth_chroma_minus8 = bits.read_ue("bit_depth_chroma_minus8")? as u8;
    // Table 6-1: offsets count samples of chroma.
    let across = if matches!(head.chroma_format_idc, 1 | 2) {
        2
    } else {
        1
    };
    let down = if head.chroma_format_idc == 1 { 2 } else { 1 };
    let shown = |whole: u32, first: u32, last: u32, step: u32| {
        let hidden = first.saturating_add(last).saturating_mul(step);
        u16::try_from(whole.saturating_sub(hidden)).unwrap_or(0)
    };
    let size = (
        shown(width, cut[0], cut[1], across),
        shown(height, cut[2], cut[3], down),
    );
    Ok((head, size))
}

/// Section 7.3.3, `profile_tier_level`; of layers within only how long they are.
fn levels(bits: &mut impl BitRead, layers: u8, head: &mut Hvcc) -> Result<(), BitReaderError> {
    head.general_profile_space = bits.read(2, "general_profile_space")?;
    head.general_tier_flag = bits.read_bool("general_tier_flag")?;
    head.general_profile_idc = bits.read(5, "general_profile_idc")?;
    for byte in &mut head.general_profile_compatibility_flags {
        *byte = bits.read(8, "general_profile_compatibility_flag")?;
    }
    for byte in &mut head.general_constraint_indicator_flags {
        *byte = bits.read(8, "general_constraint_indicator_flags")?;
    }
    head.general_level_idc = bits.read(8, "general_level_idc")?;
    let mut skipped = 0;
    for _ in 0..layers {
        let profile = bits.read_bool("sub_layer_profile_present_flag")?;
        let level = bits.read_bool("sub_layer_level_present_flag")?;
        skipped += if profile { 88 } else { 0 } + if level { 8 } else { 0 };
    }
    if layers > 0 {
        bits.skip(2 * (8 - u32::from(layers)), "reserved_zero_2bits")?;
    }
    bits.skip(skipped, "sub_layer_profile_and_level")
}
