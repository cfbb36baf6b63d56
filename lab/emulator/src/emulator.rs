//! The emulator as its user has it: sites, and a handle on the paths between them.

use std::io;
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use sangam_io::clock;
use sangam_io::wake::{self, Waker};

use crate::address::SITES_MAX;
use crate::engine::{Command, Engine};
use crate::error::Error;
use crate::fabric::{Fabric, Strays};
use crate::path::{Counters, Path};
use crate::quality::{Quality, State};
use crate::site::Site;

/// Sites, and the thread between them. Everything it made ends with it.
#[derive(Debug)]
pub struct Emulator {
    sites: Vec<Site>,
    control: Control,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Changes and reads paths while packets flow. What a call did holds when it returns. A handle
/// does not keep the emulator alive.
#[derive(Clone, Debug)]
pub struct Control {
    commands: Sender<Command>,
    waker: Waker,
    sites: usize,
}

impl Emulator {
    /// A network of these sites, all joined by perfect paths. The same seed loses and delays
    /// alike.
    ///
    /// # Errors
    /// [`Error::Namespace`], [`Error::Tun`] and [`Error::Setup`] say what this machine or this
    /// user lacks, [`Error::Sites`] that there are none or too many.
    pub fn new(names: &[&str], seed: u64) -> Result<Self, Error> {
        if !(1..=SITES_MAX).contains(&names.len()) {
            return Err(Error::Sites(names.len()));
        }
        let (mut sites, mut devices) = (Vec::new(), Vec::new());
        for (number, name) in names.iter().enumerate() {
            let (site, device) = Site::new(number, name)?;
            sites.push(site);
            devices.push(device);
        }
        let (commands, inbox) = mpsc::channel();
        let (waker, sleeper) = wake::pair().map_err(|error| Error::System("eventfd", error))?;
        let engine = Engine {
            fabric: Fabric::new(sites.len(), seed),
            devices,
            commands: inbox,
            sleeper,
        };
        let thread = thread::Builder::new()
            .name("emulator".to_owned())
            .spawn(move || engine.run())
            .map_err(|error| Error::System("a thread", error))?;
        Ok(Self {
            control: Control {
                commands,
                waker,
                sites: sites.len(),
            },
            sites,
            thread: Some(thread),
        })
    }

    /// All sites, by number.
    #[must_use]
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// The handle on the paths.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // A thread that ended by itself has told every caller since.
        let _ = self.control.commands.send(Command::Stop);
        self.control.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Control {
    /// How many sites there are.
    #[must_use]
    pub fn sites(&self) -> usize {
        self.sites
    }

    /// Gives a directed path this quality.
    ///
    /// # Errors
    /// [`Error::Quality`] if it is out of range, [`Error::NoSite`], [`Error::Gone`].
    pub fn set(&self, from: usize, to: usize, quality: Quality) -> Result<(), Error> {
        quality.check()?;
        self.change(from, to, move |_| quality)
    }

    /// Gives both directions between two sites this quality.
    ///
    /// # Errors
    /// As [`Control::set`].
    pub fn set_both(&self, a: usize, b: usize, quality: &Quality) -> Result<(), Error> {
        self.set(a, b, quality.clone())?;
        self.set(b, a, quality.clone())
    }

    /// Opens, cuts or blackholes both directions between two sites; all else stays.
    ///
    /// # Errors
    /// [`Error::NoSite`], [`Error::Gone`].
    pub fn set_state(&self, a: usize, b: usize, state: State) -> Result<(), Error> {
        for (from, to) in [(a, b), (b, a)] {
            self.change(from, to, move |quality| Quality { state, ..quality })?;
        }
        Ok(())
    }

    /// Opens, cuts or blackholes a site's ways to and from all others.
    ///
    /// # Errors
    /// [`Error::NoSite`], [`Error::Gone`].
    pub fn set_site_state(&self, site: usize, state: State) -> Result<(), Error> {
        let mut others = (0..self.sites).filter(|other| *other != site);
        others.try_for_each(|other| self.set_state(site, other, state))
    }

    /// The quality of a directed path.
    ///
    /// # Errors
    /// [`Error::NoSite`], [`Error::Gone`].
    pub fn quality(&self, from: usize, to: usize) -> Result<Quality, Error> {
        self.look(from, to, |path| path.quality().clone())
    }

    /// What a directed path did so far.
    ///
    /// # Errors
    /// [`Error::NoSite`], [`Error::Gone`].
    pub fn counters(&self, from: usize, to: usize) -> Result<Counters, Error> {
        self.look(from, to, |path| path.counters)
    }

    /// Packets that belong to no path, so far.
    ///
    /// # Errors
    /// [`Error::Gone`].
    pub fn strays(&self) -> Result<Strays, Error> {
        self.ask(|fabric| fabric.strays)
    }

    fn change(
        &self,
        from: usize,
        to: usize,
        what: impl FnOnce(Quality) -> Quality + Send + 'static,
    ) -> Result<(), Error> {
        self.look(from, to, |path| {
            let quality = what(path.quality().clone());
            path.set(clock::now(), quality);
        })
    }

    fn look<T: Send + 'static>(
        &self,
        from: usize,
        to: usize,
        what: impl FnOnce(&mut Path) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let found = self.ask(move |fabric| fabric.path_mut(from, to).map(what))?;
        let unknown = if from < self.sites { to } else { from };
        found.ok_or(Error::NoSite(unknown))
    }

    fn ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Fabric) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (answer, answered) = mpsc::sync_channel(1);
        let command = Box::new(move |fabric: &mut Fabric| {
            // Whoever asked waits for it.
            let _ = answer.send(what(fabric));
        });
        let sent = self.commands.send(Command::Do(command));
        sent.map_err(|_| Error::Gone)?;
        self.waker.wake();
        answered.recv().map_err(|_| Error::Gone)
    }
}
