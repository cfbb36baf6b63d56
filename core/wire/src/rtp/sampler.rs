//! Which events of what comes in as RTP carry a trace.

use sangam_model::Class;

use crate::Flags;

/// One event in so many, or one picture in so many.
const EVERY: u8 = 16;

/// Chooses the events of one stream that carry a trace. Of a picture only the first packet does:
/// a burst whose packets are of one size is sent at once, and a trace makes a packet longer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sampler {
    left: u8,
}

impl Sampler {
    /// Whether the next event carries one: the first, then every 16th; of video the first of
    /// every 16th picture.
    pub fn is_due(&mut self, class: Class, flags: Flags) -> bool {
        if class == Class::Video && !flags.contains(Flags::FRAME_START) {
            return false;
        }
        let due = self.left == 0;
        self.left = if due { EVERY - 1 } else { self.left - 1 };
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sound_in_sixteen_is_due_and_the_begin_of_one_picture_in_sixteen() {
        let count = |class, flags: &[Flags]| {
            let mut sampler = Sampler::default();
            let due = flags.iter().map(|flags| sampler.is_due(class, *flags));
            due.map(u32::from).sum::<u32>()
        };
        assert_eq!(count(Class::Audio, &[Flags::NONE; 160]), 10);
        assert_eq!(count(Class::Video, &[Flags::NONE; 160]), 0);
        let picture = [Flags::FRAME_START, Flags::NONE, Flags::FRAME_END];
        assert_eq!(count(Class::Video, &picture.repeat(160)), 10);
        let mut sampler = Sampler::default();
        let due = picture.map(|flags| sampler.is_due(Class::Video, flags));
        assert_eq!(due, [true, false, false]);
    }
}
