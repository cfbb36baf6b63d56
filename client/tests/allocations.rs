//! A receiver takes all its memory at its begin. In a program of its own, as the allocator belongs
//! to the whole program.

use std::time::Duration;

use sangam_io::alloc::CountingAllocator;
use sangam_jitter::{Config, Input, Kind, Packet, Receiver};
use sangam_model::Time;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new(&["receiver"]);

/// Behind a network that reorders, loses, repeats and pauses.
fn receive(kind: Kind) {
    let mut receiver = Receiver::new(kind, &Config::default());
    let mut state = 1_u64;
    let mut now = Time::from_millis(1_000);
    for count in 0..50_000_u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005) + 1;
        let luck = state >> 40;
        let seq = count + luck % 12;
        now += Duration::from_micros(luck % 20_000);
        let sent = Time::from_millis(10 * seq);
        receiver.handle(now, Input::Packet(Packet { seq, sent }));
        while receiver.poll().is_some() {}
    }
}

#[test]
fn no_receiver_allocates_once_it_is_made() {
    let receivers = Kind::ALL.len() as u64;
    let worker = std::thread::Builder::new().name("receiver".into());
    let made = worker.spawn(|| {
        let receivers = Kind::ALL.map(|kind| Receiver::new(kind, &Config::default()));
        ALLOCATOR.start();
        drop(receivers.clone());
        let made = ALLOCATOR.stop();
        ALLOCATOR.start();
        Kind::ALL.into_iter().for_each(receive);
        (made, ALLOCATOR.stop())
    });
    let (made, all) = made.unwrap().join().unwrap();
    assert!(made >= receivers, "the allocator does not count");
    // Each has some dozen blocks of its own, and there are 50,000 packets.
    assert!(all < 40 * receivers, "{all} allocations");
}
