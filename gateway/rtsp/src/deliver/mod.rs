//! Films by UDP: from this node alone, or each block from the node that has it (Yima's bipartite
//! delivery; `docs/spec/film-delivery.md`).
//!
//! A thread of its own sends: [`work`] has it, with a timer wheel of 2 ms, bursts of at most eight
//! packets that the kernel cuts, and all that is due in one system call. `stream` is one film for
//! one client, `curve`s come from the archive, `reads` has threads for each disk that read blocks
//! in the order in which they are due, `repeat` sends again what was lost, `gate` keeps to what the
//! line carries.
//!
//! `show` is the session at the front: it gives orders to its own node and, by `peers`, to the
//! others. An order is the same for all; who sends which block follows from the disks, so nodes
//! need not talk about it.

mod admission;
mod desk;
mod gate;
mod order;
mod outbox;
mod packet;
mod peers;
mod reads;
mod repeat;
mod requests;
mod runs;
mod show;
mod stream;
mod work;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use sangam_archive::films::{Curve, Film, Films};
use sangam_io::count::Count;
use sangam_io::wake::{Waker, pair};

pub(crate) use admission::{Admission, Booked, processor};
pub(crate) use desk::{FilmDesk, Place};
pub(crate) use order::{Order, Pace};
pub(crate) use packet::RTX_TYPE;
pub(crate) use peers::{News, Peers};
pub(crate) use requests::{FEATURE, wants_feedback, wants_nodes};
pub(crate) use show::Delivery;
pub(crate) use work::{Command, Sockets};

use crate::counts::{Counted, Metric};
use reads::Reads;
use stream::Stream;
use work::{Parts, Work};

/// A session: the front, and its number there.
pub(crate) type Key = (u32, u64);

/// A film came to its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// By the front's number.
    pub(crate) session: u64,
}

macro_rules! totals {
    ($($field:ident, $help:literal;)*) => {
        /// What was sent, and what there is now.
        #[derive(Debug, Default)]
        pub(crate) struct Totals {
            $(#[doc = $help] pub(crate) $field: Count,)*
            /// Films now.
            pub(crate) streams: AtomicU64,
            /// Bits in a second that they have on average, this node's share of them.
            pub(crate) bits: AtomicU64,
            /// Those of other fronts.
            pub(crate) foreign: AtomicU64,
            /// Lost packets that wait to be looked for.
            pub(crate) waiting: AtomicU64,
        }

        impl Totals {
            /// All of them.
            pub(crate) fn all(&self) -> Vec<Counted> {
                vec![$((concat!("film_", stringify!($field)), $help, self.$field.get())),*]
            }

            /// The same by their names in metrics.
            pub(crate) fn metrics(&self) -> Vec<Metric> {
                vec![$(Metric {
                    name: concat!("sangam_rtsp_film_", stringify!($field), "_total"),
                    help: $help,
                    is_counter: true,
                    value: self.$field.get(),
                }),*]
            }
        }
    };
}

totals! {
    packets, "Packets of films sent by datagrams";
    messages, "Bursts of those that the kernel got";
    bytes, "Bytes of those packets";
    unsent_full, "Packets of films not sent: the socket's buffer was full";
    unsent_failed, "Packets of films not sent: their destination refuses them";
    repeated, "Lost packets sent again";
    refused, "Lost packets not sent again: too many, too old, or never sent";
    rates, "Changes of rates that this node was told of";
    late, "Times a film was not read from the disk in time";
    failed, "Blocks of films left out, and films not sent: they cannot be read";
    orphaned, "Films stopped: their front is gone";
    read_bytes, "Bytes of blocks read for films, be they in memory or not";
    lost_blocks, "Reads of blocks that failed";
}

impl Totals {
    fn measure<'a>(&self, own: u32, streams: impl Iterator<Item = (u32, &'a Stream)>) {
        let (mut count, mut bits, mut foreign) = (0, 0, 0);
        for (front, stream) in streams {
            count += 1;
            bits += stream.share();
            foreign += if front == own { 0 } else { stream.share() };
        }
        self.streams.store(count, Ordering::Relaxed);
        self.bits.store(bits, Ordering::Relaxed);
        self.foreign.store(foreign, Ordering::Relaxed);
    }
}

impl Pace {
    /// The curve of a film.
    pub(crate) fn curve(self, film: &Arc<Film>) -> Curve {
        match self {
            Self::Clock => Curve::clock(film.clone()),
            Self::Average => Curve::average(film),
            Self::Constant(rate) => Curve::constant(film, rate),
            Self::Smooth(buffer) => Curve::smooth(film, buffer),
        }
    }
}

/// Bits in a second of a film, on average.
pub(crate) fn bits_of(film: &Film) -> u64 {
    let seconds = film.index.length().as_secs_f64().max(0.1);
    (film.object.bytes as f64 * 8.0 / seconds) as u64
}

/// Lost packets that wait to be sent again. Beyond, they are refused: clients ask again.
const LOST_MAX: u64 = 1 << 15;

/// The handle of the thread that sends.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    commands: Sender<Command>,
    waker: Waker,
}

impl Mailbox {
    /// Tells it something.
    pub(crate) fn tell(&self, command: Command) {
        if self.commands.send(command).is_ok() {
            self.waker.wake();
        }
    }

    /// An order of this node's own front, which the client knows by this address.
    pub(crate) fn order(&self, front: u32, from: IpAddr, order: Order) {
        self.tell(Command::Order(front, Some(from), Box::new(order)));
    }
}

/// The thread that sends, and those that read for it.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) mailbox: Mailbox,
    pub(crate) totals: Arc<Totals>,
    pub(crate) ended: Receiver<Ended>,
    thread: Option<JoinHandle<()>>,
}

impl Sending {
    /// Sends films by these sockets, no more than `limit` bits a second where there is one; `waker`
    /// wakes whoever takes what [`Sending::ended`] has.
    ///
    /// # Errors
    /// This machine has no thread or descriptor left.
    pub(crate) fn start(
        films: Arc<Films>,
        (sockets, limit): (Vec<Sockets>, Option<u64>),
        waker: Waker,
    ) -> io::Result<Self> {
        let (commands, inbox) = channel();
        let (own_waker, sleeper) = pair()?;
        let (over, ended) = channel();
        let totals = Arc::<Totals>::default();
        let reads = Reads::new(&films, (&commands, &own_waker), &totals);
        let work = Work::new(Parts {
            films,
            sockets,
            limit,
            inbox,
            ended: (over, waker),
            totals: totals.clone(),
            reads,
            sleeper,
        })?;
        let thread = thread::Builder::new().name("sangam-send".to_owned());
        let thread = Some(thread.spawn(move || work.run())?);
        let waker = own_waker;
        Ok(Self {
            mailbox: Mailbox { commands, waker },
            totals,
            ended,
            thread,
        })
    }
}

impl Sending {
    /// Tells it what a client lost, unless too much of that waits.
    pub(crate) fn lost(&self, peer: IpAddr, source: u32, numbers: Vec<u16>) {
        let (count, waiting) = (numbers.len() as u64, &self.totals.waiting);
        if waiting.fetch_add(count, Ordering::AcqRel) + count > LOST_MAX {
            waiting.fetch_sub(count, Ordering::AcqRel);
            self.totals.refused.add(count);
            return;
        }
        self.mailbox.tell(Command::Lost(peer, source, numbers));
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.mailbox.tell(Command::End);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that sends films had panicked");
        }
    }
}
