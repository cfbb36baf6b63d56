//! Packets of a compound, appended to the caller's buffer one after the other.
//!
//! A compound starts with a report and holds the source's name (RFC 3550 section 6.1).

use super::{Block, CNAME_LEN_MAX, SenderInfo, Target, VERSION, format, kind};
use crate::codec::Put;
use crate::feedback::Nack;

/// Report blocks one packet has room for (5-bit count).
const BLOCKS_MAX: usize = 31;
/// NACK items that stay within 1,024 bytes; 4,301 packets.
const NACKS_MAX: usize = 253;
const LOST_MAX: i32 = 0x7f_ffff;

/// A sender report; of more than 31 blocks the first 31.
pub fn sender_report(out: &mut Vec<u8>, info: &SenderInfo, blocks: &[Block]) {
    let blocks = &blocks[..blocks.len().min(BLOCKS_MAX)];
    packet(out, kind::SENDER_REPORT, blocks.len() as u8, |out| {
        out.put_u32(info.ssrc);
        out.put_u64(info.ntp);
        out.put_u32(info.timestamp);
        out.put_u32(info.packets);
        out.put_u32(info.bytes);
        blocks.iter().for_each(|block| put_block(out, block));
    });
}

/// A receiver report; of more than 31 blocks the first 31.
pub fn receiver_report(out: &mut Vec<u8>, ssrc: u32, blocks: &[Block]) {
    let blocks = &blocks[..blocks.len().min(BLOCKS_MAX)];
    packet(out, kind::RECEIVER_REPORT, blocks.len() as u8, |out| {
        out.put_u32(ssrc);
        blocks.iter().for_each(|block| put_block(out, block));
    });
}

/// A source description with the canonical name; bytes of it above 255 are cut off.
pub fn source_name(out: &mut Vec<u8>, ssrc: u32, cname: &str) {
    const CNAME: u8 = 1;
    let end = (0..=CNAME_LEN_MAX)
        .rev()
        .find(|&end| cname.is_char_boundary(end));
    let cname = &cname[..end.unwrap_or(0)];
    packet(out, kind::SOURCES, 1, |out| {
        out.put_u32(ssrc);
        out.put_u8(CNAME);
        out.put_u8(cname.len() as u8);
        out.put(cname.as_bytes());
        // RFC 3550 section 6.5: at least one zero ends the list, up to the next word.
        out.put(&[0; 4][..4 - (2 + cname.len()) % 4]);
    });
}

/// The source leaves.
pub fn bye(out: &mut Vec<u8>, ssrc: u32) {
    packet(out, kind::BYE, 1, |out| out.put_u32(ssrc));
}

/// Lost packets (RFC 4585 section 6.2.1); of more than 253 items the first 253.
pub fn nack(out: &mut Vec<u8>, target: Target, lost: &[Nack]) {
    packet(out, kind::TRANSPORT_FEEDBACK, format::NACK, |out| {
        put_target(out, target);
        for item in lost.iter().take(NACKS_MAX) {
            out.put_u16(item.first);
            out.put_u16(item.also);
        }
    });
}

/// A picture was lost (RFC 4585 section 6.3.1).
pub fn picture_loss(out: &mut Vec<u8>, target: Target) {
    packet(out, kind::PAYLOAD_FEEDBACK, format::PICTURE_LOSS, |out| {
        put_target(out, target)
    });
}

/// The common header around a body of whole words.
fn packet(out: &mut Vec<u8>, kind: u8, count: u8, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.put(&[VERSION << 6 | count, kind, 0, 0]);
    body(out);
    let words = (out.len() - start) / 4 - 1;
    out[start + 2..start + 4].copy_from_slice(&(words as u16).to_be_bytes());
}

fn put_target(out: &mut Vec<u8>, target: Target) {
    out.put_u32(target.sender);
    out.put_u32(target.media);
}

fn put_block(out: &mut Vec<u8>, block: &Block) {
    // RFC 3550 appendix A.3: clamped, not wrapped.
    let [_, l0, l1, l2] = block.lost.clamp(-LOST_MAX - 1, LOST_MAX).to_be_bytes();
    out.put_u32(block.ssrc);
    out.put(&[block.fraction_lost, l0, l1, l2]);
    out.put_u32(block.highest);
    out.put_u32(block.jitter);
    out.put_u32(block.last_report);
    out.put_u32(block.delay);
}
