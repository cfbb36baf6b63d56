//! What was sent and delivered lately.

use core::time::Duration;

use crate::measure::Sample;

/// Samples that are kept.
const KEPT: usize = 32;
/// Shorter times say little: receivers take packets in batches.
const SPAN_MIN: Duration = Duration::from_millis(45);

/// The last samples, newest first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Recent([Sample; KEPT]);

impl Recent {
    pub(super) fn note(&mut self, sample: Sample) {
        self.0.rotate_right(1);
        self.0[0] = sample;
    }

    /// Bytes each second that arrived over the last `span` or a little more.
    pub(super) fn delivered(&self, span: Duration) -> f64 {
        self.mean(span, |sample| (sample.delivered, sample.delivered_over))
    }

    /// Bytes each second that left over the last `span` or a little more.
    pub(super) fn sent(&self, span: Duration) -> f64 {
        self.mean(span, |sample| (sample.sent, sample.sent_over))
    }

    fn mean(&self, span: Duration, of: impl Fn(&Sample) -> (u64, Duration)) -> f64 {
        let (mut bytes, mut time) = (0, Duration::ZERO);
        for sample in &self.0 {
            if time >= span.max(SPAN_MIN) {
                break;
            }
            let (more, over) = of(sample);
            bytes += more;
            time += over;
        }
        bytes as f64 / time.as_secs_f64().max(1e-3)
    }
}
