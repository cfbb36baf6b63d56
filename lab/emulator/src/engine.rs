//! The thread that carries packets from device to device.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use sangam_io::clock;
use sangam_io::poll::{Events, Interest, Poller};
use sangam_io::wake::Sleeper;

use crate::fabric::Fabric;

/// Packets read from one device before the others get their turn.
const TURN: usize = 64;
/// The largest IP packet.
const PACKET_MAX: usize = 65_535;
/// The wake-up's token; devices have their site's number.
const WAKE: u64 = u64::MAX;
/// The shortest sleep. Packets of one burst are due microseconds apart, and to fall asleep and
/// wake for each of them costs more than all of them.
const GRAIN: Duration = Duration::from_micros(50);
/// Nothing is due: a command ends the wait.
const IDLE: Duration = Duration::from_secs(1);

/// What is to be done between two packets.
pub(crate) enum Command {
    /// Look at the fabric or change it.
    Do(Box<dyn FnOnce(&mut Fabric) + Send>),
    /// End.
    Stop,
}

/// Devices, what lies between them, and whoever changes it.
pub(crate) struct Engine {
    pub(crate) fabric: Fabric,
    pub(crate) devices: Vec<File>,
    pub(crate) commands: Receiver<Command>,
    pub(crate) sleeper: Sleeper,
}

impl Engine {
    /// Runs until it is told to stop.
    pub(crate) fn run(mut self) -> io::Result<()> {
        // Without the privilege it runs like the others, and packets wait for it.
        let _ = rustix::process::nice(-15);
        // The kernel may wake an ordinary thread 50 microseconds late; every packet that waits
        // would be.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let poller = Poller::new()?;
        poller.add(self.sleeper.fd(), WAKE, Interest::Read)?;
        for (site, device) in self.devices.iter().enumerate() {
            poller.add(device.as_fd(), site as u64, Interest::Read)?;
        }
        let mut events = Events::with_capacity(self.devices.len() + 1);
        let mut packet = vec![0; PACKET_MAX];
        loop {
            self.sleeper.arm();
            if !self.obey() {
                return Ok(());
            }
            poller.wait(&mut events, Some(self.pause()))?;
            self.sleeper.disarm();
            for event in events.iter().filter(|event| event.token != WAKE) {
                self.read(event.token as usize, &mut packet);
            }
            self.deliver();
        }
    }

    /// How long to sleep if nothing comes.
    fn pause(&self) -> Duration {
        match self.fabric.deadline().map(|due| due - clock::now()) {
            None => IDLE,
            Some(Duration::ZERO) => Duration::ZERO,
            Some(span) => span.max(GRAIN),
        }
    }

    /// Carries out what was asked; whether to go on.
    fn obey(&mut self) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(Command::Do(what)) => what(&mut self.fabric),
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    fn read(&mut self, site: usize, packet: &mut [u8]) {
        let Some(mut device) = self.devices.get(site) else {
            return;
        };
        for _ in 0..TURN {
            match device.read(packet) {
                Ok(len) => self.fabric.handle(clock::now(), site, &packet[..len]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Nothing more, or a device that its namespace took down.
                Err(_) => return,
            }
        }
    }

    fn deliver(&mut self) {
        let now = clock::now();
        while let Some((site, packet)) = self.fabric.poll(now) {
            let written = self
                .devices
                .get(site)
                .map(|mut device| device.write(packet));
            if !matches!(written, Some(Ok(_))) {
                self.fabric.strays.refused += 1;
            }
        }
    }
}
