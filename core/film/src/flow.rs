//! Which rate a client asks its server for: multi-threshold flow control (Zimmermann et al. 2004,
//! section 2.5, after their "A multi-threshold online smoothing technique").

/// The slowest and the fastest that is asked for, of the film's own rate.
pub const RATE_MIN: f64 = 0.5;
/// See [`RATE_MIN`].
pub const RATE_MAX: f64 = 1.5;
/// Thresholds unless told otherwise.
pub const THRESHOLDS: usize = 7;
/// More would ask at every packet.
pub const THRESHOLDS_MAX: usize = 31;

/// Where the lowest and the highest threshold lie in the buffer.
const LOWEST: f64 = 0.1;
const HIGHEST: f64 = 0.9;
/// Where the buffer is to be.
const MIDDLE: f64 = 0.5;
/// Between two rates that are told apart; a server counts in thousandths.
const STEP: f64 = 0.001;

/// Watches how full a client's buffer is. A new rate is asked for only if a threshold lies between
/// two looks, and only if it is another than before; so a client whose buffer stays in one place
/// says nothing, and thousands of clients cost their server next to nothing.
#[derive(Clone, Debug)]
pub struct Flow {
    thresholds: Vec<f64>,
    /// How full it was at the last look.
    last: Option<f64>,
    rate: f64,
    changes: u64,
}

impl Flow {
    /// With so many thresholds (1 to [`THRESHOLDS_MAX`]; what is beyond counts as the bound),
    /// evenly from a tenth of the buffer to nine tenths.
    #[must_use]
    pub fn new(thresholds: usize) -> Self {
        let count = thresholds.clamp(1, THRESHOLDS_MAX);
        let place = |number: usize| match count {
            1 => MIDDLE,
            _ => LOWEST + (HIGHEST - LOWEST) * number as f64 / (count - 1) as f64,
        };
        Self {
            thresholds: (0..count).map(place).collect(),
            last: None,
            rate: 1.0,
            changes: 0,
        }
    }

    /// The buffer is filled so far, 0 to 1 (what overflows counts as 1), and what is to be played
    /// next needs so much of the film's own rate (1.0 if that is not known): the rate to ask for,
    /// [`RATE_MIN`] to [`RATE_MAX`], if it is time to ask for another one.
    ///
    /// Between the thresholds that were passed the one that was passed last counts. Below the
    /// middle it is faster than what is needed, above it slower, by as much as it lies away.
    pub fn sample(&mut self, filled: f64, needed: f64) -> Option<f64> {
        let filled = if filled.is_nan() {
            0.0
        } else {
            filled.clamp(0.0, 1.0)
        };
        let last = self.last.replace(filled)?;
        let (low, high) = (last.min(filled), last.max(filled));
        let passed = |place: &&f64| low < **place && **place <= high;
        let threshold = match filled > last {
            true => self.thresholds.iter().rev().find(passed),
            false => self.thresholds.iter().find(passed),
        };
        let rate = rate(*threshold?, needed);
        if (rate - self.rate).abs() < STEP / 2.0 {
            return None;
        }
        self.rate = rate;
        self.changes += 1;
        Some(rate)
    }

    /// The rate that was asked for last.
    #[must_use]
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// How often another rate was asked for.
    #[must_use]
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    /// The film goes on elsewhere, or after a pause, at its own rate: what the buffer held is
    /// forgotten.
    pub fn restart(&mut self) {
        (self.last, self.rate) = (None, 1.0);
    }
}

/// The rate at a threshold, in whole steps.
fn rate(threshold: f64, needed: f64) -> f64 {
    let needed = if needed.is_finite() { needed } else { 1.0 };
    let slope = (RATE_MAX - 1.0) / (MIDDLE - LOWEST);
    let rate = needed + (MIDDLE - threshold) * slope;
    let rate = (rate / STEP).round() * STEP;
    rate.clamp(RATE_MIN, RATE_MAX)
}
