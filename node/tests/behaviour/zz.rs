use crate::support::*;
#[test]
fn zz_speed() {
    let broker = start(config(1));
    let (mut p, mut a, mut b) = (udp(&broker), udp(&broker), udp(&broker));
    subscribe(&mut a, "x");
    subscribe(&mut b, "x");
    let mut flow = Flow::open(&mut p, "x", &mut [&mut a, &mut b]);
    let t = std::time::Instant::now();
    flow.pump(20_000, &mut [&mut a, &mut b]);
    eprintln!("20k in {:?}", t.elapsed());
}
