//! What a session has shown, and how it is kept.

use super::Tally;

/// Everything of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// By method, in the order of the roster.
    pub streams: Vec<Stream>,
    /// Sessions that are in it.
    pub runs: u64,
    /// Time that all of it took, the network's delays included, in nanoseconds, by the clock that
    /// was given.
    pub spent_ns: u64,
}

/// What one method sent, and what receivers made of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// What the method cost.
    pub costs: Costs,
    /// By block.
    pub sent: Vec<Sent>,
    /// By receiver, in the order of the roster.
    pub tallies: Vec<Tally>,
}

/// Some time of one method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets that the network did not lose.
    pub packets: u32,
    /// Time until their first copies arrived, summed, in microseconds.
    pub transit_us: u64,
}

/// What a method cost, warm-up included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Packets that it sent.
    pub packets: u64,
    /// Packets whose path was not their predecessor's.
    pub path_changes: u64,
    /// Plans that a central scheduler sent.
    pub plans: u64,
    /// Bytes of those.
    pub plan_bytes: u64,
    /// Bytes of probes that it heard of.
    pub probe_bytes: u64,
    /// Copies on a second path.
    pub duplicates: u64,
    /// Bytes of those.
    pub duplicate_bytes: u64,
    /// Time that choosing and simulating took, in nanoseconds, by the clock that was given.
    pub spent_ns: u64,
}

impl Costs {
    pub(super) const fn of(costs: &sangam_route::method::Costs, spent_ns: u64) -> Self {
        Self {
            packets: costs.packets,
            path_changes: costs.path_changes,
            plans: costs.plans,
            plan_bytes: costs.plan_bytes,
            probe_bytes: costs.probe_bytes,
            duplicates: costs.duplicates,
            duplicate_bytes: costs.duplicate_bytes,
            spent_ns,
        }
    }

    const fn numbers(&self) -> [u64; 8] {
        [
            self.packets,
            self.path_changes,
            self.plans,
            self.plan_bytes,
            self.probe_bytes,
            self.duplicates,
            self.duplicate_bytes,
            self.spent_ns,
        ]
    }

    fn from_numbers(numbers: [u64; 8]) -> Self {
        let [
            packets,
            path_changes,
            plans,
            plan_bytes,
            probe_bytes,
            duplicates,
            duplicate_bytes,
            spent_ns,
        ] = numbers;
        Self {
            packets,
            path_changes,
            plans,
            plan_bytes,
            probe_bytes,
            duplicates,
            duplicate_bytes,
            spent_ns,
        }
    }

    /// Adds another session's.
    pub fn merge(&mut self, other: &Self) {
        let mut sums = self.numbers();
        for (sum, more) in sums.iter_mut().zip(other.numbers()) {
            *sum += more;
        }
        *self = Self::from_numbers(sums);
    }
}

impl Stream {
    /// Packets that were to be delivered, warm-up excluded.
    #[must_use]
    pub fn expected(&self) -> u64 {
        self.sent.iter().map(|sent| u64::from(sent.packets)).sum()
    }
}

impl Outcome {
    /// Adds what the same methods and receivers showed elsewhere: sums add up, blocks follow.
    pub fn append(&mut self, other: Self) {
        if self.streams.is_empty() {
            *self = other;
            return;
        }
        self.runs += other.runs;
        self.spent_ns += other.spent_ns;
        for (mine, theirs) in self.streams.iter_mut().zip(other.streams) {
            mine.costs.merge(&theirs.costs);
            mine.sent.extend(theirs.sent);
            for (tally, more) in mine.tallies.iter_mut().zip(theirs.tallies) {
                tally.append(more);
            }
        }
    }

    /// Lets go of what grew with the session's length; sizes and sums stay.
    pub fn forget_blocks(&mut self) {
        for stream in &mut self.streams {
            let expected = stream.expected();
            let transit_us = stream.sent.iter().map(|sent| sent.transit_us).sum();
            stream.sent = vec![Sent {
                packets: u32::try_from(expected).unwrap_or(u32::MAX),
                transit_us,
            }];
            stream
                .tallies
                .iter_mut()
                .for_each(|tally| tally.blocks = Vec::new());
        }
    }

    /// As bytes, to be kept in a file.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut numbers = vec![self.runs, self.spent_ns, self.streams.len() as u64];
        for stream in &self.streams {
            numbers.extend(stream.costs.numbers());
            numbers.push(stream.sent.len() as u64);
            numbers.extend(
                stream
                    .sent
                    .iter()
                    .flat_map(|s| [u64::from(s.packets), s.transit_us]),
            );
            numbers.push(stream.tallies.len() as u64);
            stream
                .tallies
                .iter()
                .for_each(|tally| tally.put(&mut numbers));
        }
        let mut bytes = Vec::with_capacity(numbers.len() * 2);
        for mut number in numbers {
            while number >= 0x80 {
                bytes.push(number as u8 | 0x80);
                number >>= 7;
            }
            bytes.push(number as u8);
        }
        bytes
    }

    /// What [`Outcome::to_bytes`] made, if these bytes are that.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut numbers = Numbers(bytes);
        let mut outcome = Self {
            runs: numbers.next()?,
            spent_ns: numbers.next()?,
            ..Self::default()
        };
        for _ in 0..numbers.next().filter(|streams| *streams <= 1 << 12)? {
            let mut costs = [0; 8];
            for number in &mut costs {
                *number = numbers.next()?;
            }
            let mut sent = Vec::new();
            for _ in 0..numbers.next().filter(|blocks| *blocks <= 1 << 20)? {
                sent.push(Sent {
                    packets: u32::try_from(numbers.next()?).ok()?,
                    transit_us: numbers.next()?,
                });
            }
            let mut tallies = Vec::new();
            for _ in 0..numbers.next().filter(|tallies| *tallies <= 1 << 12)? {
                tallies.push(Tally::take(&mut numbers)?);
            }
            outcome.streams.push(Stream {
                costs: Costs::from_numbers(costs),
                sent,
                tallies,
            });
        }
        numbers.0.is_empty().then_some(outcome)
    }
}

/// Numbers of seven bits a byte, the lowest first (LEB128).
struct Numbers<'a>(&'a [u8]);

impl Iterator for Numbers<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let mut value = 0;
        for place in 0..10 {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << (7 * place);
            if *byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
}
