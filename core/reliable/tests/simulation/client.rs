//! A client that publishes, or listens and checks what comes.

use std::collections::BTreeMap;

use sangam_model::{PublisherId, Time, Topic};
use sangam_reliable::{ClientId, Event, Member};

pub(crate) struct Client {
    pub(crate) member: Member,
    /// The broker and the number it has there.
    pub(crate) session: Option<(usize, ClientId)>,
    pub(crate) publishes: Option<PublisherId>,
    /// Events of this publisher so far.
    pub(crate) sent: u64,
    /// Reads only so often.
    pub(crate) slow: bool,
    pub(crate) read_at: Time,
    /// By publisher: the number of the last event.
    pub(crate) last: BTreeMap<PublisherId, u64>,
    /// A gap was told since.
    gap: BTreeMap<PublisherId, bool>,
    pub(crate) gaps: u64,
    pub(crate) received: u64,
    pub(crate) live: bool,
}

impl Client {
    /// Whether it has the last event of a publisher, or was told that it does not come.
    pub(crate) fn knows(&self, publisher: PublisherId, sent: u64) -> bool {
        let last = self.last.get(&publisher).copied().unwrap_or(0);
        last == sent || self.gap.get(&publisher) == Some(&true)
    }

    pub(crate) fn publisher(seed: u64, topic: &Topic) -> Self {
        let mut client = Self::new(seed);
        client.publishes = client.member.publish(topic.clone()).ok();
        client
    }

    pub(crate) fn subscriber(seed: u64, topic: &Topic, replay: u32) -> Self {
        let mut client = Self::new(seed);
        let begun = client.member.subscribe(Time::ZERO, topic.clone(), replay);
        assert_eq!(begun, Ok(()));
        client
    }

    fn new(seed: u64) -> Self {
        Self {
            member: Member::new(seed),
            session: None,
            publishes: None,
            sent: 0,
            slow: false,
            read_at: Time::ZERO,
            last: BTreeMap::new(),
            gap: BTreeMap::new(),
            gaps: 0,
            received: 0,
            live: false,
        }
    }

    /// Publishes the next event, of a size that follows from its number.
    pub(crate) fn publish(&mut self) -> bool {
        let Some(publisher) = self.publishes else {
            return false;
        };
        let number = self.sent + 1;
        let len = match number % 50 {
            0 => 2_000,
            7 => 801,
            rest => 8 + usize::try_from(rest).unwrap(),
        };
        let mut payload = number.to_be_bytes().to_vec();
        payload.resize(len, number as u8);
        let taken = self.member.send(publisher, &payload).is_ok();
        self.sent += u64::from(taken);
        taken
    }

    /// Reads what came, and checks that it may come now.
    pub(crate) fn read(&mut self, seed: u64) {
        let most = if self.slow { 80 } else { usize::MAX };
        for _ in 0..most {
            let Some(event) = self.member.next_event() else {
                return;
            };
            match event {
                Event::Received {
                    publisher, payload, ..
                } => self.received(seed, publisher, &payload),
                Event::Gap { publisher, .. } => {
                    self.gaps += 1;
                    self.gap.insert(publisher, true);
                }
                Event::Live(_) => self.live = true,
                Event::Held(_) => {}
                other => panic!("seed {seed}: {other:?}"),
            }
        }
    }

    fn received(&mut self, seed: u64, publisher: PublisherId, payload: &[u8]) {
        let number = u64::from_be_bytes(payload[..8].try_into().unwrap());
        assert!(payload[8..].iter().all(|byte| *byte == number as u8));
        let last = self.last.entry(publisher).or_insert(0);
        assert!(
            number > *last,
            "seed {seed}: event {number} behind event {last} of {publisher}"
        );
        let gap = self.gap.remove(&publisher).unwrap_or(false);
        assert!(
            number == *last + 1 || gap || *last == 0,
            "seed {seed}: after event {last} of {publisher} came {number}, and no gap was told"
        );
        *last = number;
        self.received += 1;
    }
}
