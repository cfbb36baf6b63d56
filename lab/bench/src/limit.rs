//! What the machine allows: the tightest send loop there is, saturated.
//!
//! Every figure of a broker is held against this, measured in the same run with the same kind
//! of receivers, since absolute times drift from run to run and machine to machine.

mod ground;
mod schedule;

use std::thread;
use std::time::{Duration, Instant};

use sangam_io::limit::RawFanout;

use crate::args::Receivers;
use crate::error::Error;
use crate::load::{Frame, Load};
use crate::process::own_cpu;
use ground::Ground;

pub(crate) use schedule::{Cost, participants_allowed};

/// Shortest time a shape is repeated: three times the scheduler's slice, so that senders and
/// readers both get their turn.
const SPAN_MIN: Duration = Duration::from_millis(40);

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    /// The load whose bursts are sent.
    pub(crate) load: &'a Load,
    /// Destinations of one packet.
    pub(crate) fanout: usize,
    /// Audiences of so many destinations that each sending thread serves in turn.
    pub(crate) audiences: usize,
    /// Sending threads.
    pub(crate) threads: usize,
    /// What the destinations do with what they get.
    pub(crate) receivers: Receivers,
    /// A frame leaves as one UDP_SEGMENT message, not packet by packet.
    pub(crate) segmented: bool,
    /// How long to send, all shapes together.
    pub(crate) span: Duration,
}

/// What was reached.
#[derive(Clone, Debug)]
pub(crate) struct Rate {
    /// Packets per second of all threads, in the mix of the load.
    pub(crate) packets_per_s: f64,
    /// CPU of the whole process per packet in microseconds, readers included.
    pub(crate) cpu_us_per_packet: f64,
    /// Time each kind of frame takes until it is sent, or read where sockets are.
    pub(crate) costs: Vec<Cost>,
    /// Packets sent.
    pub(crate) sent: u64,
    /// Packets that were read.
    pub(crate) read: u64,
}

struct Spent {
    packets: u64,
    rate: f64,
    cpu: Duration,
}

/// Sends as fast as it goes.
///
/// # Errors
/// [`Error::System`] if a socket fails.
pub(crate) fn measure(plan: &Plan<'_>) -> Result<Rate, Error> {
    let ground = Ground::new(plan.receivers)?;
    let mut fanouts = fanouts(plan, &ground)?;
    let shapes = shapes(plan.load);
    let span = (plan.span / shapes.len() as u32).max(SPAN_MIN);
    let mut rate = Rate {
        packets_per_s: 0.0,
        cpu_us_per_packet: 0.0,
        costs: Vec::new(),
        sent: 0,
        read: 0,
    };
    let (mut weight, mut seconds, mut cpu_us) = (0.0, 0.0, 0.0);
    for (frame, share) in shapes {
        // A first round brings routes and caches up.
        let burst = (frame, plan.segmented);
        let first = saturate(&mut fanouts, &ground, burst, Duration::ZERO)?;
        let spent = saturate(&mut fanouts, &ground, burst, span)?;
        let packets = share * f64::from(frame.packets);
        weight += packets;
        seconds += packets / spent.rate;
        cpu_us += packets * spent.cpu.as_secs_f64() * 1e6 / spent.packets as f64;
        rate.sent += first.packets + spent.packets;
        let frame_s = f64::from(frame.packets) / spent.rate;
        rate.costs.push(Cost {
            packets: frame.packets,
            seconds: frame_s,
        });
    }
    rate.packets_per_s = weight / seconds;
    rate.cpu_us_per_packet = cpu_us / weight;
    rate.read = ground.close();
    Ok(rate)
}

fn fanouts(plan: &Plan<'_>, ground: &Ground) -> Result<Vec<RawFanout>, Error> {
    let all = ground.destinations(plan.fanout * plan.audiences * plan.threads);
    (0..plan.threads)
        .map(|thread| {
            // Interleaved, so that every thread reaches every receiving socket.
            let own: Vec<_> = all
                .iter()
                .skip(thread)
                .step_by(plan.threads)
                .copied()
                .collect();
            RawFanout::new(&own, plan.fanout)
                .map_err(|error| Error::System("a sending socket", error))
        })
        .collect()
}

/// The kinds of frames a load has, by packets, each with its mean size and its share.
fn shapes(load: &Load) -> Vec<(Frame, f64)> {
    let largest = load
        .frames
        .iter()
        .map(|frame| frame.packets)
        .max()
        .unwrap_or(0);
    let all = load.frames.len() as f64;
    let shape = |packets| {
        let same: Vec<&Frame> = load
            .frames
            .iter()
            .filter(|f| f.packets == packets)
            .collect();
        let bytes: usize = same.iter().map(|frame| usize::from(frame.bytes)).sum();
        let mean = bytes.checked_div(same.len())? as u16;
        Some((
            Frame {
                bytes: mean,
                ..*same[0]
            },
            same.len() as f64 / all,
        ))
    };
    (1..=largest).filter_map(shape).collect()
}

/// A packet is served once it is sent or, where sockets are read, once it is read.
fn saturate(
    fanouts: &mut [RawFanout],
    ground: &Ground,
    what: (Frame, bool),
    span: Duration,
) -> Result<Spent, Error> {
    let cpu = own_cpu();
    let (begun, read_before) = (Instant::now(), ground.read());
    let results = thread::scope(|scope| {
        let run = |fanout| scope.spawn(move || repeat(fanout, what, span));
        let threads: Vec<_> = fanouts.iter_mut().map(run).collect();
        threads
            .into_iter()
            .map(|thread| thread.join())
            .collect::<Vec<_>>()
    });
    let mut spent = Spent {
        packets: 0,
        rate: 0.0,
        cpu: Duration::ZERO,
    };
    for result in results {
        let (packets, took) = result
            .map_err(|_| Error::Option("a sending thread failed; please report this".to_owned()))?
            .map_err(|error| Error::System("sendmmsg", error))?;
        spent.packets += packets;
        spent.rate += packets as f64 / took.as_secs_f64();
    }
    if ground.is_read() {
        ground.catch_up(read_before + spent.packets);
        let read = ground.read() - read_before;
        spent.rate = read as f64 / begun.elapsed().as_secs_f64();
    }
    spent.cpu = own_cpu() - cpu;
    Ok(spent)
}

fn repeat(
    fanout: &mut RawFanout,
    (frame, segmented): (Frame, bool),
    span: Duration,
) -> std::io::Result<(u64, Duration)> {
    let bytes = frame.datagram_len();
    let begun = Instant::now();
    let mut packets = 0;
    loop {
        if segmented {
            packets += fanout.send(frame.packets, bytes)? * u64::from(frame.packets);
        } else {
            for _ in 0..frame.packets {
                packets += fanout.send(1, bytes)?;
            }
        }
        fanout.turn();
        let took = begun.elapsed();
        if took >= span {
            return Ok((packets, took));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Media;

    #[test]
    fn shapes_keep_the_load_s_packets() {
        let load = Load::of(Media::Video);
        let per_frame: f64 = shapes(&load)
            .iter()
            .map(|(frame, share)| f64::from(frame.packets) * share)
            .sum();
        let expected = load.packets_per_round() as f64 / load.frames.len() as f64;
        assert!((per_frame - expected).abs() < 1e-9);
    }

    #[test]
    fn readers_get_what_was_sent_or_count_it() {
        let load = Load::of(Media::Audio);
        let plan = Plan {
            load: &load,
            fanout: 5,
            audiences: 2,
            threads: 1,
            receivers: Receivers::Read,
            segmented: false,
            span: Duration::from_millis(40),
        };
        let rate = measure(&plan).expect("loopback works");
        assert!(rate.sent > 0 && rate.read > 0);
        assert!(rate.packets_per_s > 0.0 && rate.cpu_us_per_packet > 0.0);
    }
}
