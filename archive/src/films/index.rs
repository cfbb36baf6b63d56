//! Where in a film its time stands, and where playing it can begin.

use std::time::Duration;

use super::packets::TICKS;

/// The least between two points, in ticks of 27 MHz: 100 ms, the longest that ISO/IEC 13818-1
/// section 2.7.2 lets a stream be without its clock. Between them its pace is even.
pub(super) const SPACING: u64 = TICKS / 10;

/// Made of a film's packets; whoever has the film has its index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Packets of the film, of 188 bytes.
    pub packets: u64,
    /// Those that are none.
    pub broken: u64,
    /// When packets are to arrive, in order; at least two.
    pub(super) points: Vec<Point>,
    /// Packets at which playing can begin, in order: tables and then a key frame.
    pub(super) starts: Vec<u64>,
}

/// A packet with the program clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    /// Its number.
    pub(super) packet: u64,
    /// When it is to arrive, since the first: 27 MHz.
    pub(super) ticks: u64,
}

impl Index {
    /// When a packet is to arrive, since the begin of the film.
    #[must_use]
    pub fn at(&self, packet: u64) -> Duration {
        let ticks = self.ticks(packet);
        Duration::new(
            ticks / TICKS,
            (ticks % TICKS * 1_000_000_000 / TICKS) as u32,
        )
    }

    /// How long the film is.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.at(self.packets)
    }

    /// Places at which playing can begin.
    #[must_use]
    pub fn starts(&self) -> usize {
        self.starts.len()
    }

    /// The packet at which to begin so that what comes at `to` is shown.
    #[must_use]
    pub fn start(&self, to: Duration) -> u64 {
        let behind = self.starts.partition_point(|start| self.at(*start) <= to);
        let before = behind.checked_sub(1).and_then(|at| self.starts.get(at));
        before.copied().unwrap_or(0)
    }

    /// The place to begin that comes behind one when the film is wound, or with a negative `scale`
    /// before it: the first that is so far away, or else the last there is. `None` behind that.
    pub(super) fn step(&self, start: u64, apart: Duration, scale: f64) -> Option<u64> {
        let at = self.at(start);
        if scale < 0.0 {
            let before = self.starts.partition_point(|known| *known < start);
            let before = &self.starts[..before];
            let far = before.partition_point(|known| self.at(*known) + apart <= at);
            return before.get(far.saturating_sub(1)).copied();
        }
        let behind = self.starts.partition_point(|known| *known <= start);
        let behind = &self.starts[behind..];
        let far = behind.partition_point(|known| self.at(*known) < at + apart);
        behind.get(far).or(behind.last()).copied()
    }

    /// What a file of it has to hold, the more of points and starts.
    pub(super) fn entries(&self) -> u64 {
        self.points.len().max(self.starts.len()) as u64
    }

    fn ticks(&self, packet: u64) -> u64 {
        let behind = self.points.partition_point(|point| point.packet <= packet);
        // Behind the last point it goes on as between the last two.
        let second = behind.clamp(1, self.points.len().saturating_sub(1).max(1));
        let (Some(from), Some(to)) = (self.points.get(second - 1), self.points.get(second)) else {
            return 0;
        };
        let Some(passed) = packet.checked_sub(from.packet) else {
            return 0;
        };
        let packets = u128::from((to.packet - from.packet).max(1));
        let ticks = u128::from(to.ticks - from.ticks) * u128::from(passed) / packets;
        from.ticks.saturating_add(ticks as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_evenly_between_points_and_on_behind_the_last() {
        let point = |packet, seconds| Point {
            packet,
            ticks: seconds * TICKS,
        };
        let index = Index {
            packets: 400,
            broken: 0,
            points: vec![point(2, 0), point(102, 1), point(302, 2)],
            starts: vec![0, 100, 200],
        };
        let ms = Duration::from_millis;
        for (packet, expected) in [(0, 0), (2, 0), (52, 500), (102, 1_000), (202, 1_500)] {
            assert_eq!(index.at(packet), ms(expected), "{packet}");
        }
        assert_eq!(index.length(), ms(2_490));
        for (to, expected) in [(0, 0), (979, 0), (980, 100), (1_400, 100), (9_000, 200)] {
            assert_eq!(index.start(ms(to)), expected, "{to}");
        }
        for (start, apart, scale, expected) in [
            (0, 200, 4.0, Some(100)),
            (0, 1_100, 4.0, Some(200)),
            (0, 9_000, 4.0, Some(200)),
            (200, 200, 4.0, None),
            (200, 200, -4.0, Some(100)),
            (200, 1_100, -4.0, Some(0)),
            (200, 9_000, -4.0, Some(0)),
            (0, 200, -4.0, None),
        ] {
            let found = index.step(start, ms(apart), scale);
            assert_eq!(found, expected, "{start} {apart} {scale}");
        }
    }
}
