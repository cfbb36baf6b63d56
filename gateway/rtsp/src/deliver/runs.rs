//! Which datagram had which local number.

use std::collections::VecDeque;

/// Runs remembered: each is a block's worth at most, so about a hundred seconds of a film.
const RUNS_MAX: usize = 128;

/// Counts what one node sends of one session.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    runs: VecDeque<Run>,
    next: u32,
}

/// Datagrams that were sent one behind the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    local: u32,
    datagram: u64,
    /// The constant between datagrams and global numbers then.
    gsn: u32,
    count: u32,
}

impl Runs {
    /// The local number of a datagram that is sent now.
    pub(crate) fn push(&mut self, datagram: u64, gsn: u32) -> u32 {
        let local = self.next;
        self.next = self.next.wrapping_add(1);
        if let Some(last) = self.runs.back_mut()
            && last.datagram + u64::from(last.count) == datagram
            && last.gsn == gsn
        {
            last.count += 1;
            return local;
        }
        if self.runs.len() == RUNS_MAX {
            self.runs.pop_front();
        }
        self.runs.push_back(Run {
            local,
            datagram,
            gsn,
            count: 1,
        });
        local
    }

    /// The whole local number whose low 16 bits these are, its datagram, and the constant of that
    /// time; `None` if it was not sent, or too long ago.
    pub(crate) fn find(&self, low: u16) -> Option<(u32, u64, u32)> {
        let behind = (self.next as u16).wrapping_sub(low);
        let local = self.next.wrapping_sub(u32::from(behind));
        let mut runs = self.runs.iter().rev();
        runs.find_map(|run| {
            let ahead = local.wrapping_sub(run.local);
            let is_here = behind > 0 && ahead < run.count;
            is_here.then_some((local, run.datagram + u64::from(ahead), run.gsn))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_numbers_lead_to_their_datagrams() {
        let mut runs = Runs::default();
        let datagrams = (0..796).chain(7_960..8_756).chain(100..110);
        for (local, datagram) in (0..).zip(datagrams.clone()) {
            assert_eq!(runs.push(datagram, 5), local);
        }
        for (local, datagram) in (0..).zip(datagrams) {
            assert_eq!(runs.find(local as u16), Some((local, datagram, 5)));
        }
        assert_eq!(runs.find(1_602), None);
        // Beyond 16 bits, and what is too long ago.
        for datagram in 0..100_000 {
            runs.push(datagram * 2, 9);
        }
        let last = runs.next - 1;
        assert_eq!(runs.find(last as u16), Some((last, 199_998, 9)));
        assert_eq!(runs.find((last - 127) as u16).unwrap().1, 199_998 - 254);
        assert_eq!(runs.find((last - 128) as u16), None);
    }
}
