use super::*;
use sangam_model::StreamId;

const FRESH: Duration = Duration::from_millis(1);
const LATE: Duration = VIDEO_AGE_MAX.saturating_add(FRESH);

/// One packet of a frame: letters as in `Flags`' debug form, `.` for none.
fn packet(class: Class, marks: &str) -> Header {
    let flags = marks.chars().fold(Flags::NONE, |flags, mark| {
        flags.with(match mark {
            'S' => Flags::FRAME_START,
            'E' => Flags::FRAME_END,
            'K' => Flags::KEY,
            'D' => Flags::DISCARDABLE,
            _ => Flags::NONE,
        })
    });
    Header {
        class,
        flags,
        stream: StreamId::from_bits(1),
        sequence: 0,
        hop_limit: 1,
        layer: 0,
    }
}

/// Feeds packets such as `SK!` (`!` late, `F` full ring) and draws what happened to each:
/// `+` delivered, `l` late, `s` shed, `f` ring full.
fn timeline(packets: &str) -> String {
    let mut shedder = Shedder::new();
    packets
        .split(' ')
        .map(|marks| {
            let age = if marks.contains('!') { LATE } else { FRESH };
            let full = marks.contains('F');
            match shedder.admit(&packet(Class::Video, marks), age, full) {
                Admit::Deliver => '+',
                Admit::Drop(DropReason::VideoLate) => 'l',
                Admit::Drop(DropReason::VideoShed) => 's',
                Admit::Drop(DropReason::RingFullVideo) => 'f',
                Admit::Drop(other) => panic!("{other:?}"),
            }
        })
        .collect()
}

#[test]
fn a_late_frame_goes_whole_and_all_until_the_next_key_frame() {
    assert_eq!(timeline("SK K KE S! . E S E SK KE S E"), "+++lssss++++");
}

#[test]
fn a_frame_once_begun_is_finished_however_late() {
    assert_eq!(timeline("SK K! KE! S E"), "+++++");
}

#[test]
fn a_full_ring_cuts_a_frame_and_the_rest_goes_with_it() {
    assert_eq!(timeline("SK KE S F E S E SK KE"), "+++fsss++");
}

#[test]
fn a_late_key_frame_does_not_end_the_shedding() {
    assert_eq!(timeline("SKE S!E SK! KE SE SKE SE"), "+llss++");
}

#[test]
fn a_discardable_frame_goes_alone() {
    assert_eq!(timeline("SKE SD! D DE SE SDF DE SE"), "+lss+fs+");
}

#[test]
fn a_stream_without_key_marks_resumes_with_the_next_timely_frame() {
    assert_eq!(timeline("S E S! E S! E S E"), "++lsls++");
}

#[test]
fn a_stream_without_any_marks_is_judged_event_by_event() {
    assert_eq!(timeline(". .! .! . .F ."), "+ll+f+");
}

#[test]
fn a_frame_whose_start_was_lost_on_the_way_passes() {
    assert_eq!(timeline("SKE . E SE"), "++++");
}

#[test]
fn a_single_packet_frame_that_meets_a_full_ring_sheds_to_the_next_key_frame() {
    assert_eq!(timeline("SKE SEF SE SKE"), "+fs+");
}

#[test]
fn a_key_frame_is_wanted_only_where_there_are_any() {
    let mut shedder = Shedder::new();
    shedder.admit(&packet(Class::Video, "S"), LATE, false);
    assert!(!shedder.wants_key_frame());
    shedder.admit(&packet(Class::Video, "SKE"), FRESH, false);
    shedder.admit(&packet(Class::Video, "SE"), LATE, false);
    assert!(shedder.wants_key_frame());
    shedder.admit(&packet(Class::Video, "SKE"), FRESH, false);
    assert!(!shedder.wants_key_frame());
}

#[test]
fn audio_outlives_video_and_the_rest_goes_only_for_want_of_room() {
    let mut shedder = Shedder::new();
    let mut admit = |class, age, full| shedder.admit(&packet(class, "."), age, full);
    let later = AUDIO_AGE_MAX + FRESH;
    assert_eq!(admit(Class::Audio, LATE, false), Admit::Deliver);
    assert_eq!(
        admit(Class::Audio, later, false),
        Admit::Drop(DropReason::AudioLate)
    );
    for class in [Class::Rtcp, Class::Data, Class::Feedback] {
        assert_eq!(admit(class, later, false), Admit::Deliver);
        assert_eq!(
            admit(class, FRESH, true),
            Admit::Drop(DropReason::ring_full(class))
        );
    }
}
