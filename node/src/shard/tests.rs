use std::sync::mpsc::sync_channel;

use sangam_io::wake;

use super::*;

/// A shard without ports, and the lane's ends of its rings.
fn shard(pool: &Pool) -> (Shard, Inlets, Arc<Counters>) {
    let (inlets, inbound) = rings();
    let (waker, sleeper) = wake::pair().unwrap();
    let counters = Arc::new(Counters::default());
    let parts = Parts {
        number: 0,
        pool: pool.clone(),
        cache: 1,
        sleeper,
        inbound,
        commands: sync_channel(1).1,
        control: Outlet::new(sync_channel(1).0, waker.clone()),
        reliable: Outlet::new(sync_channel(1).0, waker.clone()),
        to_lane: RingBuffer::new(1).0,
        lane: waker,
        ports: Vec::new(),
        trusted: Vec::new(),
        verifier: None,
        counters: counters.clone(),
    };
    (Shard::new(parts).unwrap(), inlets, counters)
}

#[test]
fn what_cannot_be_read_blocks_nothing_behind_it() {
    let pool = Pool::new(4, 0);
    let (mut shard, mut inlets, counters) = shard(&pool);
    for class in [Class::Audio, Class::Video] {
        for _ in 0..2 {
            let packet = pool.copy(&[0; 3]).unwrap().freeze();
            let at = clock::now();
            inlets[class as usize].push(Entry { packet, at }).unwrap();
        }
    }
    shard.turn();
    assert_eq!(counters.drops(DropReason::Malformed), 4);
    assert_eq!(pool.free().0, 4);
}
