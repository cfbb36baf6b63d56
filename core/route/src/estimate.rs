//! What a link's delay is now, from measurements that come late and now and then.

use sangam_model::{Measured, Time};

/// Noise that is taken for granted: the grain of clocks and schedulers, in square milliseconds.
const NOISE_MIN: f64 = 0.25;
/// Longer delays, and clocks further apart, count as this.
const DELAY_MS_MAX: f64 = 60_000.0;
/// A deviation before there are two measurements, as a share of the first.
const NOISE_FIRST: f64 = 0.1;
/// Uncertainty of a link that nothing is known of: a second, squared.
const UNKNOWN: f64 = 1e6;
/// How uncertainty grows with each second unheard: a little, and a share of the noise. At two
/// measurements a second the last three or so decide.
const DRIFT: (f64, f64) = (0.5, 0.5);
/// What a measurement counts in the noise: the last twenty seconds or so at two a second.
const NOISE_SHARE: f64 = 0.025;
/// A measurement further out than so many deviations is an outlier.
const OUTLIER: f64 = 4.0;
/// So many outliers in a row on the same side are a change.
const OUTLIERS: u8 = 2;
/// What a measurement counts in the loss: the last hundred or so decide.
const LOSS_SHARE: f64 = 0.01;
/// A lost packet costs as much as a second: one percent of loss weighs as much as 10 ms.
const LOSS_MS: f64 = 1_000.0;
/// So many losses in a row are an outage.
const LOSSES: u8 = 2;

/// Deviations that count beside a level: a packet in a hundred or fewer comes later.
pub(crate) const DEVIATIONS: f64 = 2.0;

/// The estimate of one link: a level that follows small errors slowly (a Kalman filter with one
/// state), takes a change at its second sign at once, and knows how uncertain it is.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    mean_ms: f64,
    /// Of the mean, in square milliseconds.
    uncertainty: f64,
    /// Of measurements around the mean, in square milliseconds.
    noise: f64,
    loss: f64,
    lost_in_row: u8,
    outliers: Run,
    heard: Option<Time>,
}

/// Outliers in a row on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    above: bool,
    len: u8,
}

impl Default for Estimate {
    fn default() -> Self {
        Self {
            mean_ms: 0.0,
            uncertainty: UNKNOWN,
            noise: NOISE_MIN,
            loss: 0.0,
            lost_in_row: 0,
            outliers: Run::default(),
            heard: None,
        }
    }
}

impl Estimate {
    /// What a link says of itself that smooths its own measurements.
    #[must_use]
    pub fn of(measured: &Measured) -> Self {
        let deviation_ms = measured.jitter.as_secs_f64() * 1e3;
        Self {
            mean_ms: measured.rtt.as_secs_f64() * 1e3 / 2.0,
            uncertainty: 0.0,
            noise: deviation_ms * deviation_ms,
            loss: f64::from(measured.loss_ppm) / 1e6,
            ..Self::default()
        }
    }

    /// Takes a measured delay in milliseconds; whether it shows a change of the link.
    pub fn observe(&mut self, now: Time, delay_ms: f64) -> bool {
        if delay_ms.is_nan() {
            return false;
        }
        let delay_ms = delay_ms.clamp(-DELAY_MS_MAX, DELAY_MS_MAX);
        self.loss -= LOSS_SHARE * self.loss;
        self.lost_in_row = 0;
        if self.heard.is_none() {
            self.start(now, delay_ms);
            return true;
        }
        self.advance(now);
        let error = delay_ms - self.mean_ms;
        let spread = self.spread();
        let far = OUTLIER * spread.sqrt();
        let changed = self.outliers.count(error, far) >= OUTLIERS;
        if changed {
            self.outliers = Run::default();
            self.uncertainty += error * error;
        } else {
            let square = (error * error).min(far * far);
            self.noise = (self.noise + NOISE_SHARE * (square - spread)).max(NOISE_MIN);
        }
        let gain = self.uncertainty / self.spread();
        self.mean_ms += gain
            * if changed {
                error
            } else {
                error.clamp(-far, far)
            };
        self.uncertainty *= 1.0 - gain;
        changed
    }

    /// Takes that a measurement got lost.
    pub fn lose(&mut self, now: Time) {
        self.advance(now);
        self.loss += LOSS_SHARE * (1.0 - self.loss);
        self.lost_in_row = self.lost_in_row.saturating_add(1);
    }

    /// Takes the first measurement.
    pub(crate) fn start(&mut self, now: Time, delay_ms: f64) {
        self.heard = Some(now);
        self.mean_ms = delay_ms;
        let deviation = NOISE_FIRST * delay_ms;
        self.noise = (deviation * deviation).max(NOISE_MIN);
        self.uncertainty = self.noise;
    }

    /// Lets uncertainty grow until `now`, when it is heard of.
    pub(crate) fn advance(&mut self, now: Time) {
        let Some(heard) = self.heard else { return };
        let unheard = now.since(heard).as_secs_f64();
        let (little, share) = DRIFT;
        let grown = self.uncertainty + unheard * (little + share * self.noise);
        self.uncertainty = grown.min(UNKNOWN);
        self.heard = Some(heard.max(now));
    }

    /// The level in milliseconds.
    #[must_use]
    pub const fn mean_ms(&self) -> f64 {
        self.mean_ms
    }

    /// The variance of the next measurement around the level, in square milliseconds.
    #[must_use]
    pub const fn spread(&self) -> f64 {
        self.noise + self.uncertainty
    }

    /// What loss weighs, in milliseconds.
    #[must_use]
    pub const fn loss_ms(&self) -> f64 {
        let outage = self.lost_in_row >= LOSSES;
        LOSS_MS * if outage { 1.0 } else { self.loss }
    }

    /// When it was last heard of, if ever.
    #[must_use]
    pub const fn heard(&self) -> Option<Time> {
        self.heard
    }

    /// Moves the level by this link's share of the `error_ms` of a path whose links' uncertainties
    /// add up to `of`.
    pub(crate) fn nudge(&mut self, error_ms: f64, of: f64) -> f64 {
        let step = error_ms * self.uncertainty / of.max(f64::MIN_POSITIVE);
        self.mean_ms += step;
        step
    }

    /// Doubts the level by so much, until the link is measured itself.
    pub(crate) fn doubt(&mut self, ms: f64) {
        self.uncertainty = (self.uncertainty + ms * ms).min(UNKNOWN);
    }

    pub(crate) const fn uncertainty(&self) -> f64 {
        self.uncertainty
    }
}

impl Run {
    /// Takes the next error; how many in a row have been further out than `far` on its side.
    pub(crate) fn count(&mut self, error: f64, far: f64) -> u8 {
        let above = error > 0.0;
        if error.abs() <= far {
            self.len = 0;
        } else if above == self.above {
            self.len = self.len.saturating_add(1);
        } else {
            *self = Self { above, len: 1 };
        }
        self.len
    }
}

/// What a chain of links costs: its level, so many deviations beside it, and its loss.
pub(crate) fn cost_ms<'a>(links: impl Iterator<Item = &'a Estimate>, deviations: f64) -> f64 {
    let (mut sum, mut spread) = (0.0, 0.0);
    for link in links {
        sum += link.mean_ms + link.loss_ms();
        spread += link.spread();
    }
    sum + deviations * spread.sqrt()
}

#[cfg(test)]
mod tests {
    use sangam_model::Random;

    use super::*;

    fn half_seconds() -> impl Iterator<Item = Time> {
        (0..).map(|n| Time::from_millis(500 * n))
    }

    #[test]
    fn noise_is_averaged_and_known() {
        let mut random = Random::new(1);
        let mut estimate = Estimate::default();
        for now in half_seconds().take(200) {
            estimate.observe(now, 80.0 + 4.0 * random.normal());
        }
        assert!((estimate.mean_ms() - 80.0).abs() < 4.0, "{estimate:?}");
        assert!(
            (2.5..7.0).contains(&estimate.spread().sqrt()),
            "{estimate:?}"
        );
    }

    #[test]
    fn a_change_counts_at_its_second_sign_and_a_spike_does_not() {
        let mut estimate = Estimate::default();
        let mut times = half_seconds();
        for now in times.by_ref().take(100) {
            estimate.observe(now, 50.0 + 0.1 * (now.as_micros() % 7) as f64);
        }
        assert!(!estimate.observe(times.next().unwrap(), 150.0));
        assert!(estimate.mean_ms() < 60.0, "{estimate:?}");
        assert!(!estimate.observe(times.next().unwrap(), 50.0));
        assert!(!estimate.observe(times.next().unwrap(), 150.0));
        assert!(estimate.observe(times.next().unwrap(), 150.0));
        assert!((estimate.mean_ms() - 150.0).abs() < 2.0, "{estimate:?}");
    }

    #[test]
    fn a_link_that_is_not_heard_becomes_uncertain_and_loss_weighs() {
        let mut estimate = Estimate::default();
        for now in half_seconds().take(20) {
            estimate.observe(now, 20.0);
        }
        let sure = cost_ms([estimate].iter(), 2.0);
        let mut unheard = estimate;
        unheard.advance(Time::from_millis(600_000));
        assert!(cost_ms([unheard].iter(), 2.0) > sure + 20.0);
        estimate.lose(Time::from_millis(10_500));
        assert!((5.0..20.0).contains(&(cost_ms([estimate].iter(), 2.0) - sure)));
        estimate.lose(Time::from_millis(11_000));
        assert!(cost_ms([estimate].iter(), 2.0) > sure + 900.0, "an outage");
    }

    #[test]
    fn absurd_measurements_leave_it_finite() {
        let mut estimate = Estimate::default();
        for ms in [
            f64::NAN,
            1e300,
            -1e9,
            0.0,
            f64::INFINITY,
            60_000.0,
            -60_000.0,
        ] {
            estimate.observe(Time::ZERO, ms);
        }
        assert!(!cost_ms([estimate].iter(), 2.0).is_nan());
    }
}
