//! How many participants a send loop of known speed could serve in time.

use crate::load::Load;
use crate::measure::LATE;

/// Late and lost packets together stay below this share (Uyar & Fox, section 2).
pub(crate) const BAD_SHARE_MAX: f64 = 0.01;

/// Most participants that are looked for.
const PARTICIPANTS_MAX: u32 = 4_000_000;

/// Time that all sending threads together take for one frame to one destination.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Packets of the frame.
    pub(crate) packets: u16,
    /// Seconds.
    pub(crate) seconds: f64,
}

/// The largest single meeting whose last receiver gets 99 % of the packets within 100 ms when
/// frames come as the load has them and each is sent in the time measured.
///
/// A queue in virtual time: so it also holds for loads whose large frames are late long before
/// the loop is busy all the time.
pub(crate) fn participants_allowed(load: &Load, costs: &[Cost]) -> u32 {
    let (mut good, mut bad) = (0, PARTICIPANTS_MAX);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if late_share(load, costs, middle) < BAD_SHARE_MAX {
            good = middle;
        } else {
            bad = middle;
        }
    }
    good
}

fn late_share(load: &Load, costs: &[Cost], participants: u32) -> f64 {
    let seconds = |packets: u16| {
        let cost = costs.iter().find(|cost| cost.packets == packets);
        cost.map_or(f64::INFINITY, |cost| cost.seconds * f64::from(participants))
    };
    let interval = load.interval.as_secs_f64();
    // A minute of a load whose frames are all alike, a whole round of one whose are not.
    let frames = (60.0 / interval).max(load.frames.len() as f64) as u64;
    let (mut free_at, mut late, mut all) = (0.0_f64, 0_u64, 0_u64);
    for number in 0..frames {
        let packets = load.frame(number).packets;
        let due = number as f64 * interval;
        free_at = free_at.max(due) + seconds(packets);
        all += u64::from(packets);
        late += if free_at - due > LATE.as_secs_f64() {
            u64::from(packets)
        } else {
            0
        };
    }
    late as f64 / all as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Media;

    #[test]
    fn even_packets_fill_the_time_between_them() {
        let load = Load::of(Media::Audio);
        let costs = [Cost {
            packets: 1,
            seconds: 1e-6,
        }];
        let allowed = participants_allowed(&load, &costs);
        // 30 ms hold 30,000 packets of 1 us; the queue may grow by 100 ms within the minute.
        assert!((30_000..30_200).contains(&allowed), "{allowed}");
    }

    #[test]
    fn large_frames_are_late_before_the_loop_is_always_busy() {
        let load = Load::of(Media::Video);
        let costs: Vec<Cost> = (1..=16)
            .map(|packets| Cost {
                packets,
                seconds: 1e-6 * f64::from(packets),
            })
            .collect();
        let allowed = f64::from(participants_allowed(&load, &costs));
        let busy = allowed * load.packets_per_s() * 1e-6;
        assert!((0.5..1.0).contains(&busy), "{busy}");
    }
}
