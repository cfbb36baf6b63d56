//! Real sockets and processes in namespaces, through real devices.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, pair, round_trip, udp, wait_for};
use sangam_emulator::{Emulator, Loss, Quality, Site, State, shift_clock, with_privileges};

fn addresses(site: &Site) -> [IpAddr; 2] {
    [site.v4().into(), site.v6().into()]
}

fn accept(listener: &TcpListener) -> TcpStream {
    let (stream, _) = listener.accept().expect("the path is open");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// A TCP connection between two sites, to `to`.
fn connect(network: &Emulator, to: IpAddr) -> (TcpStream, TcpStream) {
    let [here, there] = network.sites() else {
        panic!("two sites");
    };
    let listener = there
        .enter(|| TcpListener::bind((to, 0)))
        .expect("a listener inside");
    let address = listener.local_addr().expect("it is bound");
    let near = here
        .enter(|| TcpStream::connect(address))
        .expect("the path is open");
    (near, accept(&listener))
}

/// Sends so many bytes through a connection and checks what comes.
fn transfer((mut near, mut far): (TcpStream, TcpStream), len: usize) {
    let bytes: Vec<u8> = (0..len).map(|n| (n * 31 % 251) as u8).collect();
    let sent = bytes.clone();
    let sender = thread::spawn(move || near.write_all(&sent));
    let mut received = vec![0; len];
    far.read_exact(&mut received).expect("all of it comes");
    assert!(received == bytes, "the bytes differ");
    sender.join().expect("no panic").expect("all of it is sent");
}

#[test]
fn a_delay_is_seen_by_both_families() {
    with_privileges("a_delay_is_seen_by_both_families", || {
        let network = pair();
        let quality = Quality::delayed(Duration::from_millis(45));
        network.control().set_both(0, 1, &quality).unwrap();
        let [here, there] = network.sites() else {
            panic!("two sites");
        };
        for (near, far) in addresses(here).into_iter().zip(addresses(there)) {
            let (near, far) = (udp(here, near), udp(there, far));
            let begun = Instant::now();
            round_trip(&near, &far).unwrap();
            assert!(begun.elapsed() >= Duration::from_millis(90));
        }
    });
}

#[test]
fn every_address_of_a_site_is_its_own() {
    with_privileges("every_address_of_a_site_is_its_own", || {
        let network = pair();
        let [here, there] = network.sites() else {
            panic!("two sites");
        };
        for host in [0, 1, 300, sangam_emulator::HOSTS_MAX - 1] {
            let near = udp(here, here.host(host));
            let far = udp(there, there.host(host));
            round_trip(&near, &far).unwrap();
            assert_eq!(there.host_number(there.host(host)), Some(host));
        }
    });
}

#[test]
fn lost_packets_are_as_many_as_asked_for_and_counted() {
    with_privileges("lost_packets_are_as_many_as_asked_for_and_counted", || {
        let network = pair();
        let control = network.control();
        let lossy = Quality {
            loss: Loss::Random(0.1),
            ..Quality::default()
        };
        control.set(0, 1, lossy).unwrap();
        let near = udp(&network.sites()[0], network.sites()[0].v4());
        let far = udp(&network.sites()[1], network.sites()[1].v4());
        let (batches, batch) = (200_u64, 100_u64);
        let mut received = 0;
        for number in 1..=batches {
            for _ in 0..batch {
                near.send_to(&[7; 100], far.local_addr().unwrap()).unwrap();
            }
            // No more at a time than the receiver's socket has room for.
            let sent = number * batch;
            let counters = wait_for(control, |c| c.arrived + c.lost == sent);
            while received < counters.arrived {
                far.recv(&mut [0; 200]).unwrap();
                received += 1;
            }
        }
        let share = 1.0 - received as f64 / (batches * batch) as f64;
        // Five deviations of the binomial distribution.
        assert!((share - 0.1).abs() < 0.011, "{share}");
    });
}

#[test]
fn a_cut_is_told_and_heals() {
    with_privileges("a_cut_is_told_and_heals", || {
        let network = pair();
        let there = &network.sites()[1];
        for address in addresses(there) {
            let listener = there.enter(|| TcpListener::bind((address, 0))).unwrap();
            let target = listener.local_addr().unwrap();
            let dial =
                || network.sites()[0].enter(|| TcpStream::connect_timeout(&target, PATIENCE));
            network.control().set_state(0, 1, State::Cut).unwrap();
            let error = dial().expect_err("the way is cut");
            assert_eq!(
                error.kind(),
                ErrorKind::NetworkUnreachable,
                "{address}: {error}"
            );
            network.control().set_state(0, 1, State::Open).unwrap();
            dial().expect("the way is open again");
        }
    });
}

#[test]
fn a_blackhole_is_silent_and_tcp_outlives_it() {
    with_privileges("a_blackhole_is_silent_and_tcp_outlives_it", || {
        let network = pair();
        let control = network.control();
        let (mut near, far) = connect(&network, network.sites()[1].v4().into());
        control.set_site_state(1, State::Blackhole).unwrap();
        near.write_all(b"first").unwrap();
        let vanished = wait_for(control, |c| c.blackholed > 0);
        assert_eq!(vanished.cut, 0);
        control.set_site_state(1, State::Open).unwrap();
        let mut far = far;
        let mut room = [0; 5];
        far.read_exact(&mut room).unwrap();
        assert_eq!(&room, b"first");
    });
}

#[test]
fn tcp_and_udp_learn_a_small_mtu() {
    with_privileges("tcp_and_udp_learn_a_small_mtu", || {
        let network = pair();
        let narrow = Quality {
            mtu: 1_300,
            ..Quality::default()
        };
        network.control().set_both(0, 1, &narrow).unwrap();
        let headers = [28, 48];
        let far = addresses(&network.sites()[1]);
        for (address, headers) in far.into_iter().zip(headers) {
            let before = network.control().counters(0, 1).unwrap().too_big;
            transfer(connect(&network, address), 1_000_000);
            let after = network.control().counters(0, 1).unwrap().too_big;
            assert!(after > before, "{address}: nothing was too big");
            let learned = network.sites()[0]
                .enter(|| Ok(sangam_io::udp::path_mtu((address, 9).into())))
                .unwrap();
            assert_eq!(learned, Some(1_300 - headers), "{address}");
        }
    });
}

#[test]
fn a_program_runs_inside_its_site() {
    with_privileges("a_program_runs_inside_its_site", || {
        let network = pair();
        let there = &network.sites()[1];
        let output = there
            .command("ip")
            .args(["-o", "address"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(&there.v4().to_string()), "{text}");
        assert!(
            !text.contains(&network.sites()[0].v4().to_string()),
            "{text}"
        );
    });
}

#[test]
fn a_program_may_have_another_clock() {
    with_privileges("a_program_may_have_another_clock", || {
        let network = pair();
        let uptime = |ahead: Option<Duration>| {
            let mut command = network.sites()[0].command("cat");
            command.arg("/proc/uptime");
            if let Some(ahead) = ahead {
                shift_clock(&mut command, ahead);
            }
            let output = command.output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let seconds = text
                .split(' ')
                .next()
                .and_then(|word| word.parse::<f64>().ok());
            seconds.unwrap_or_else(|| panic!("no uptime: {text:?}"))
        };
        let day = Duration::from_secs(86_400);
        let before = uptime(None);
        // Told in hundredths, whose sums are not exact: both may be read within the same one.
        assert!(uptime(Some(day)) > before + day.as_secs_f64() - 0.01);
    });
}

#[test]
fn what_is_out_of_range_is_refused() {
    with_privileges("what_is_out_of_range_is_refused", || {
        let network = pair();
        let control = network.control();
        let wrong = Quality {
            duplicates: 2.0,
            ..Quality::default()
        };
        let text = |error: sangam_emulator::Error| error.to_string();
        assert!(text(control.set(0, 1, wrong).unwrap_err()).contains("between 0 and 1"));
        assert!(text(control.counters(0, 7).unwrap_err()).contains("no site 7"));
        assert!(text(Emulator::new(&[], 1).unwrap_err()).contains("1 to 128"));
        let orphan = control.clone();
        drop(network);
        assert!(text(orphan.strays().unwrap_err()).contains("has ended"));
    });
}
