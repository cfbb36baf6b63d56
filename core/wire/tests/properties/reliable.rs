//! Messages of reliable topics.

use std::sync::Arc;

use proptest::prelude::*;
use sangam_model::PublisherId;
use sangam_wire::{POSITIONS_MAX, Piece, RECORD_LEN_MAX, Record, RecordFlags, Reliable};

use super::{refusal, topic};

fn payload() -> impl Strategy<Value = Arc<[u8]>> {
    prop::collection::vec(any::<u8>(), 0..=RECORD_LEN_MAX).prop_map(Arc::from)
}

/// What carries records of a topic.
fn records() -> impl Strategy<Value = Reliable> {
    let number = || 0..1_u64 << 62;
    let flags = || any::<u8>().prop_map(RecordFlags::from_bits);
    let piece = (flags(), payload()).prop_map(|(flags, payload)| Piece { flags, payload });
    let push = (topic(), any::<u64>(), number(), 0..9_u64);
    let push = (push, prop::collection::vec(piece, 0..4));
    let record = (any::<u64>(), number(), flags(), payload());
    let record = record.prop_map(|(publisher, sequence, flags, payload)| Record {
        publisher: PublisherId(publisher),
        sequence,
        flags,
        payload,
    });
    let records = prop::collection::vec(record, 0..4);
    prop_oneof![
        push.prop_map(|((topic, publisher, base, more), pieces)| Reliable::Push {
            topic,
            publisher: PublisherId(publisher),
            base,
            first: base + more,
            pieces,
        }),
        (any::<u64>(), number(), any::<bool>(), records).prop_map(
            |(feed, index, all_sent, records)| Reliable::Records {
                feed,
                index,
                all_sent,
                records,
            }
        ),
    ]
}

pub(crate) fn reliable() -> impl Strategy<Value = Reliable> {
    let number = || 0..1_u64 << 62;
    let position = (any::<u64>().prop_map(PublisherId), number());
    let positions = prop::collection::vec(position, 0..=POSITIONS_MAX);
    prop_oneof![
        records(),
        (any::<u64>(), number(), 0..9_u64, any::<bool>()).prop_map(
            |(publisher, through, more, again)| Reliable::Held {
                publisher: PublisherId(publisher),
                through,
                next: through + more,
                again,
            }
        ),
        (
            any::<u64>(),
            topic(),
            any::<u32>(),
            any::<(u16, u16)>(),
            positions
        )
            .prop_map(
                |(feed, topic, replay, (part, parts), positions)| Reliable::Attach {
                    feed,
                    topic,
                    replay,
                    part,
                    parts,
                    positions,
                }
            ),
        (any::<u64>(), number()).prop_map(|(feed, next)| Reliable::Taken { feed, next }),
        (any::<u64>(), refusal()).prop_map(|(id, reason)| Reliable::End { id, reason }),
        topic().prop_map(|topic| Reliable::Offer { topic }),
    ]
}
