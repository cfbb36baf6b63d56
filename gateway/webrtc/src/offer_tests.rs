use super::*;

const BROWSER: &str = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n\
    m=audio 9 UDP/TLS/RTP/SAVPF 111 0 110\r\na=mid:0\r\na=sendonly\r\n\
    a=rtpmap:111 opus/48000/2\r\na=fmtp:111 minptime=10;useinbandfec=1\r\n\
    a=rtpmap:110 telephone-event/48000\r\n\
    m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\na=mid:1\r\n\
    m=video 9 UDP/TLS/RTP/SAVPF 96 97 98\r\na=mid:2\r\na=sendonly\r\n\
    a=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1;profile-level-id=42e01f\r\n\
    a=rtpmap:97 rtx/90000\r\na=fmtp:97 apt=96\r\na=rtpmap:98 VP8/90000\r\n\
    a=rid:f send\r\na=rid:q send\r\na=simulcast:send f;~q\r\n";

#[test]
fn encodings_come_with_their_repetitions_in_the_order_of_preference() {
    let offer = Offer::read(BROWSER).unwrap();
    let names = |medium: &Medium| {
        let of = |format: &Format| (format.name, format.payload_type, format.repeat);
        medium.formats.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(
        names(&offer.media[0]),
        [("opus", 111, None), ("PCMU", 0, None)]
    );
    assert_eq!(
        names(&offer.media[1]),
        [("H264", 96, Some(97)), ("VP8", 98, None)]
    );
    assert_eq!((&*offer.media[0].mid, &*offer.media[1].mid), ("0", "2"));
    assert_eq!(offer.media[0].formats[0].fmtp, "minptime=10;useinbandfec=1");
}

#[test]
fn a_medium_that_shares_the_port_of_another_is_not_refused() {
    let medium = |more: &str| {
        let sdp = format!("m=audio 0 UDP/TLS/RTP/SAVPF 0\r\na=mid:1\r\n{more}");
        Offer::read(&sdp).unwrap().media.remove(0).rejected
    };
    assert!(medium(""));
    assert!(!medium("a=bundle-only\r\n"));
}

#[test]
fn layers_stand_lowest_first_whatever_the_offer_says() {
    let offer = Offer::read(BROWSER).unwrap();
    assert_eq!(offer.media[1].layers, ["q", "f"]);
    assert_eq!(layers("send h;l;m recv x"), ["l", "m", "h"]);
    assert_eq!(layers("recv a;b"), [] as [&str; 0]);
    assert_eq!(layers("recv a send 0;1;2"), ["2", "1", "0"]);
    assert_eq!(layers("send x,y;~z"), ["x", "z"]);
}

#[test]
fn a_publisher_is_left_with_the_encoding_it_prefers() {
    let mut offer = Offer::read(BROWSER).unwrap();
    offer.decide();
    let codecs = offer.codecs();
    let pts: Vec<u8> = codecs.params().iter().map(|one| *one.pt()).collect();
    assert_eq!(pts, [111, 96]);
    let info = offer.media[1].formats[0].info(Class::Video);
    assert!(info.validate().is_ok());
    assert_eq!((info.encoding.as_str(), info.clock_rate), ("H264", 90_000));
}

/// An m-line of sound with these payload types, of which 63 is RED of Opus.
fn sound(types: &str) -> String {
    format!(
        "m=audio 9 UDP/TLS/RTP/SAVPF {types}\r\na=rtpmap:111 opus/48000/2\r\n\
        a=fmtp:111 minptime=10;stereo=1\r\na=rtpmap:63 red/48000/2\r\na=fmtp:63 111/111\r\n"
    )
}

#[test]
fn redundancy_is_for_those_who_prefer_it() {
    let redundant = |sdp: &str| {
        let offer = Offer::read(sdp).unwrap();
        let mut formats = offer.media.iter().flat_map(|medium| &medium.formats);
        formats.find_map(|format| format.redundant)
    };
    let preferred = sound("0 63 111");
    assert_eq!(redundant(&preferred), Some(63));
    assert_eq!(
        redundant(&sound("111 63")),
        None,
        "it can, and would rather not"
    );
    assert_eq!(redundant(&sound("111")), None);
    for (good, bad) in [
        ("111/111", "111/0"),
        ("111/111", "111"),
        ("111/111", ""),
        ("red/48000/2", "red/8000"),
        ("opus/48000/2", "opus/48000"),
        ("opus/48000/2", "PCMU/8000"),
    ] {
        let sdp = preferred.replace(good, bad);
        assert_eq!(redundant(&sdp), None, "{sdp}");
    }
    let two = sound("62 63 111") + "a=rtpmap:62 red/48000/2\r\na=fmtp:62 111/111\r\n";
    assert_eq!(redundant(&two), None, "which of them?");
}

#[test]
fn redundancy_is_for_all_media_or_none() {
    let offer = |other: &str| Offer::read(&(sound("63 111") + other)).unwrap();
    let redundant = |offer: &Offer| {
        let first = |medium: &Medium| medium.formats[0].redundant;
        offer.media.iter().map(first).collect::<Vec<_>>()
    };
    assert_eq!(redundant(&offer(&sound("63 111"))), [Some(63); 2]);
    assert_eq!(redundant(&offer("m=audio 9 X 0\r\n")), [Some(63), None]);
    assert_eq!(redundant(&offer(&sound("111 63"))), [None; 2]);
    let same = "m=video 9 X 63\r\na=rtpmap:63 VP8/90000\r\n";
    assert_eq!(redundant(&offer(same)), [None; 2], "one number for two");
    let other = sound("63 109").replace("111", "109");
    let other = other.replace("stereo=1", "stereo=0");
    assert_eq!(redundant(&offer(&other)), [None; 2], "RED of another");
}

#[test]
fn beside_redundancy_parameters_are_echoed_as_offered() {
    let answer = "v=0\r\na=fmtp:111 minptime=10;useinbandfec=1\r\na=fmtp:63 111/111\r\n";
    let echo = |sdp: &str| Offer::read(sdp).unwrap().echo(answer.to_owned());
    let expected = answer.replace("useinbandfec", "stereo");
    assert_eq!(echo(&sound("63 111")), expected);
    let bare = sound("63 111").replace("minptime=10;stereo=1", "x=y");
    assert_eq!(echo(&bare), "v=0\r\na=fmtp:63 111/111\r\n");
    assert_eq!(echo(&sound("111")), answer, "what the library wrote");
}

/// An m-line of a picture with these payload types.
fn picture(types: &str, more: &str) -> String {
    format!("m=video 9 X {types}\r\na=rtpmap:96 VP8/90000\r\n{more}")
}

#[test]
fn one_number_for_two_things_or_two_for_one_are_refused() {
    let read = |sdp: &str| Offer::read(sdp).map(|offer| offer.media.len());
    let refused = |sdp: &str| matches!(read(sdp), Err(OfferError::Ambiguous(_)));
    let vp8 = "a=rtpmap:98 VP8/90000\r\n";
    assert!(refused(&picture("96 98", vp8)));
    assert!(refused(&(picture("96", "") + &picture("98", vp8))));
    assert_eq!(read(&(picture("96", "") + &picture("96", ""))), Ok(2));
    // Profile 0 is what VP9 has if nothing is said.
    let vp9 = "a=rtpmap:98 VP9/90000\r\na=rtpmap:99 VP9/90000\r\na=fmtp:99 profile-id=";
    assert!(refused(&picture("96 98 99", &format!("{vp9}0\r\n"))));
    assert_eq!(read(&picture("96 98 99", &format!("{vp9}2\r\n"))), Ok(1));
    let mode = |mode: u8| {
        let h264 = "a=rtpmap:98 H264/90000\r\na=rtpmap:99 H264/90000\r\n\
            a=fmtp:98 packetization-mode=1;profile-level-id=42e01f\r\na=fmtp:99";
        format!("{h264} packetization-mode={mode};profile-level-id=42e01f\r\n")
    };
    assert_eq!(
        read(&picture("96 98 99", &mode(0))),
        Ok(1),
        "as browsers do"
    );
    assert!(refused(&picture("96 98 99", &mode(1))));
    let rtx = "a=rtpmap:97 rtx/90000\r\na=fmtp:97 apt=96\r\n";
    let other = "m=video 9 X 97\r\na=rtpmap:97 H264/90000\r\n";
    assert!(refused(&(picture("96 97", rtx) + other)));
}

#[test]
fn what_nobody_needs_is_refused_by_its_size() {
    let long = "a=x\r\n".repeat(OFFER_LEN_MAX / 4);
    assert_eq!(Offer::read(&long), Err(OfferError::TooLong));
    let many = "m=audio 9 UDP/TLS/RTP/SAVPF 0\r\n".repeat(MEDIA_MAX + 1);
    assert_eq!(Offer::read(&many), Err(OfferError::TooMuch));
    let types = "m=audio 9 UDP/TLS/RTP/SAVPF".to_owned() + &" 0".repeat(FORMATS_MAX + 1);
    assert_eq!(Offer::read(&types), Err(OfferError::TooMuch));
}

#[test]
fn an_offer_without_known_media_is_refused() {
    for sdp in [
        "",
        "v=0",
        "m=",
        "m=video",
        "m=video 9 X 96\r\na=rtpmap:96 theora/90000",
    ] {
        assert_eq!(Offer::read(sdp), Err(OfferError::NoMedia), "{sdp:?}");
    }
}
