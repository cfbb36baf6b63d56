//! AV1 in packets (AOMedia, "RTP Payload Format For AV1"), its sequence header (AV1 bitstream
//! specification) and what files are told of it (AOMedia, "AV1 Codec ISO Media File Format
//! Binding").

use h264_reader::rbsp::{BitRead, BitReader, BitReaderError};
use mp4_atom::Av1c;

use super::codec::Size;

/// Kinds of open bitstream units (bitstream specification section 6.2.2).
mod kind {
    pub(super) const SEQUENCE_HEADER: u8 = 1;
    pub(super) const TEMPORAL_DELIMITER: u8 = 2;
    pub(super) const TILE_LIST: u8 = 8;
    pub(super) const PADDING: u8 = 15;
}

/// What the sequence header says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Av1 {
    pub(super) size: Size,
    pub(super) config: Av1c,
}

/// One payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Payload<'a> {
    /// The first unit began in the packet before.
    pub(super) continues: bool,
    /// The last one goes on in the next.
    pub(super) goes_on: bool,
    pub(super) units: Vec<&'a [u8]>,
}

/// RTP payload format sections 4.3 and 4.4: the bits Z, Y and W, and the units.
pub(super) fn payload(bytes: &[u8]) -> Option<Payload<'_>> {
    let (first, mut rest) = bytes.split_first()?;
    let count = usize::from(first >> 4 & 3);
    let mut units = Vec::new();
    while !rest.is_empty() {
        // With a count, the last has no length.
        let (len, tail) = if count > 0 && units.len() + 1 == count {
            (rest.len(), rest)
        } else {
            leb128(rest)?
        };
        let (unit, tail) = tail.split_at_checked(len)?;
        units.push(unit);
        rest = tail;
    }
    Some(Payload {
        continues: first & 0x80 != 0,
        goes_on: first & 0x40 != 0,
        units,
    })
}

/// Whether a picture begins with this payload for certain: with what stands before its frames.
pub(super) fn begins(bytes: &[u8]) -> bool {
    payload(bytes).is_some_and(|payload| {
        let first = payload.units.first().and_then(|unit| unit.first());
        let kind = first.map(|first| kind_of(*first));
        let opens = [kind::SEQUENCE_HEADER, kind::TEMPORAL_DELIMITER];
        !payload.continues && kind.is_some_and(|kind| opens.contains(&kind))
    })
}

/// Appends a unit with its size, as files hold it; delimiters, padding and lists of tiles have no
/// place there (file format binding section 2.4). `None` if it is broken.
pub(super) fn store(out: &mut Vec<u8>, unit: &[u8]) -> Option<()> {
    let (head, body) = split(unit)?;
    if let kind::TEMPORAL_DELIMITER | kind::TILE_LIST | kind::PADDING = kind_of(head[0]) {
        return Some(());
    }
    out.push(head[0] | 0x02);
    out.extend(&head[1..]);
    let mut len = body.len();
    while len >= 0x80 {
        out.push(0x80 | len as u8 & 0x7f);
        len >>= 7;
    }
    out.push(len as u8);
    out.extend(body);
    Some(())
}

/// What a unit says if it is a sequence header that can be read.
pub(super) fn sequence_header(unit: &[u8]) -> Option<Av1> {
    let (head, body) = split(unit)?;
    if kind_of(head[0]) != kind::SEQUENCE_HEADER {
        return None;
    }
    let mut found = read(body).ok()?;
    store(&mut found.config.config_obus, unit)?;
    Some(found)
}

const fn kind_of(first: u8) -> u8 {
    first >> 3 & 0x0f
}

/// A unit's head of one or two bytes, and its body (bitstream specification section 5.3).
fn split(unit: &[u8]) -> Option<(&[u8], &[u8])> {
    let first = unit.first()?;
    let (head, rest) = unit.split_at_checked(if first & 0x04 != 0 { 2 } else { 1 })?;
    if first & 0x02 == 0 {
        return Some((head, rest));
    }
    let (len, rest) = leb128(rest)?;
    Some((head, rest.get(..len)?))
}

/// Bitstream specification section 4.10.5, up to 28 bits.
fn leb128(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0;
    for (place, byte) in bytes.iter().enumerate().take(4) {
        value |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[place + 1..]));
        }
    }
    None
}

/// Bitstream specification section 5.5.1.
fn read(body: &[u8]) -> Result<Av1, BitReaderError> {
    let mut bits = BitReader::new(body);
    let mut config = Av1c {
        seq_profile: bits.read(3, "seq_profile")?,
        ..Av1c::default()
    };
    bits.skip(1, "still_picture")?;
    let reduced = bits.read_bool("reduced_still_picture_header")?;
    if reduced {
        config.seq_level_idx_0 = bits.read(5, "seq_level_idx")?;
    } else {
        operating_points(&mut bits, &mut config)?;
    }
    let wide: u8 = bits.read(4, "frame_width_bits_minus_1")?;
    let high: u8 = bits.read(4, "frame_height_bits_minus_1")?;
    let width: u32 = bits.read(u32::from(wide) + 1, "max_frame_width_minus_1")?;
    let height: u32 = bits.read(u32::from(high) + 1, "max_frame_height_minus_1")?;
    if !reduced && bits.read_bool("frame_id_numbers_present_flag")? {
        bits.skip(7, "lengths of frame ids")?;
    }
    bits.skip(3, "superblocks, filter intra, intra edge")?;
    if !reduced {
        tools(&mut bits)?;
    }
    bits.skip(3, "superres, cdef, restoration")?;
    colors(&mut bits, &mut config)?;
    let whole = |less: u32| u16::try_from(less + 1).unwrap_or(0);
    Ok(Av1 {
        size: (whole(width), whole(height)),
        config,
    })
}

/// Timing and the operating points; of these the first counts.
fn operating_points(bits: &mut impl BitRead, config: &mut Av1c) -> Result<(), BitReaderError> {
    let mut model = None;
    if bits.read_bool("timing_info_present_flag")? {
        bits.skip(64, "num_units_in_display_tick, time_scale")?;
        if bits.read_bool("equal_picture_interval")? {
            bits.read_ue("num_ticks_per_picture_minus_1")?;
        }
        if bits.read_bool("decoder_model_info_present_flag")? {
            let delay: u8 = bits.read(5, "buffer_delay_length_minus_1")?;
            bits.skip(42, "num_units_in_decoding_tick and lengths")?;
            model = Some(u32::from(delay) + 1);
        }
    }
    let delays = bits.read_bool("initial_display_delay_present_flag")?;
    let count: u8 = bits.read(5, "operating_points_cnt_minus_1")?;
    for point in 0..=count {
        bits.skip(12, "operating_point_idc")?;
        let level: u8 = bits.read(5, "seq_level_idx")?;
        let tier = level > 7 && bits.read_bool("seq_tier")?;
        if point == 0 {
            (config.seq_level_idx_0, config.seq_tier_0) = (level, tier);
        }
        if let Some(delay) = model
            && bits.read_bool("decoder_model_present_for_this_op")?
        {
            bits.skip(2 * delay + 1, "operating_parameters_info")?;
        }
        if delays && bits.read_bool("initial_display_delay_present_for_this_op")? {
            bits.skip(4, "initial_display_delay_minus_1")?;
        }
    }
    Ok(())
}

fn tools(bits: &mut impl BitRead) -> Result<(), BitReaderError> {
    bits.skip(4, "interintra, masked, warped, dual filter")?;
    let ordered = bits.read_bool("enable_order_hint")?;
    if ordered {
        bits.skip(2, "jnt_comp, ref_frame_mvs")?;
    }
    let chosen = bits.read_bool("seq_choose_screen_content_tools")?;
    if (chosen || bits.read_bool("seq_force_screen_content_tools")?)
        && !bits.read_bool("seq_choose_integer_mv")?
    {
        bits.skip(1, "seq_force_integer_mv")?;
    }
    if ordered {
        bits.skip(3, "order_hint_bits_minus_1")?;
    }
    Ok(())
}

/// Section 5.5.2.
fn colors(bits: &mut impl BitRead, config: &mut Av1c) -> Result<(), BitReaderError> {
    const BT_709: u8 = 1;
    const SRGB: u8 = 13;
    const IDENTITY: u8 = 0;
    config.high_bitdepth = bits.read_bool("high_bitdepth")?;
    config.twelve_bit =
        config.seq_profile == 2 && config.high_bitdepth && bits.read_bool("twelve_bit")?;
    config.monochrome = config.seq_profile != 1 && bits.read_bool("mono_chrome")?;
    let mut described = [2; 3];
    if bits.read_bool("color_description_present_flag")? {
        for value in &mut described {
            *value = bits.read::<u8>(8, "color_description")?;
        }
    }
    let (across, down) = if config.monochrome {
        bits.skip(1, "color_range")?;
        (true, true)
    } else if described == [BT_709, SRGB, IDENTITY] {
        (false, false)
    } else {
        bits.skip(1, "color_range")?;
        match config.seq_profile {
            0 => (true, true),
            1 => (false, false),
            _ if !config.twelve_bit => (true, false),
            _ => {
                let across = bits.read_bool("subsampling_x")?;
                (across, across && bits.read_bool("subsampling_y")?)
            }
        }
    };
    (config.chroma_subsampling_x, config.chroma_subsampling_y) = (across, down);
    if across && down && !config.monochrome {
        config.chroma_sample_position = bits.read(2, "chroma_sample_position")?;
    }
    Ok(())
}
