//! Wires that come up, fall silent, are cut and return; brokers that die and return.

use super::*;

/// Without an interval of its own core/link's ends ping as often.
const PING: Duration = Duration::from_millis(50);

impl Network {
    /// Links two brokers, or lets a link between them take another path and come up at once.
    pub fn link(&mut self, a: usize, b: usize, path: Path) {
        let wire = self.wire_between(a, b).unwrap_or_else(|| {
            let ends = [(a, self.free_link(a)), (b, self.free_link(b))];
            self.wires.push(Wire::new(ends, path));
            let wire = self.wires.len() - 1;
            for (broker, link) in ends {
                self.ports[broker].insert(link, wire);
            }
            wire
        });
        self.wires[wire].path = path;
        self.wires[wire].open = true;
        self.connect(wire);
    }

    /// Cuts a link in good order: both ends notice at once.
    pub fn unlink(&mut self, a: usize, b: usize) {
        let Some(wire) = self.wire_between(a, b) else {
            return;
        };
        self.wires[wire].open = false;
        self.wires[wire].renew(self.now);
        (0..2).for_each(|end| self.end_down(wire, end));
    }

    /// Nothing comes through a link any more, and nobody is told: each end notices for itself.
    pub fn blackhole(&mut self, a: usize, b: usize) {
        let Some(at) = self.wire_between(a, b).filter(|at| self.wires[*at].open) else {
            return;
        };
        self.wires[at].open = false;
        self.wires[at].silence += 1;
        (0..2).for_each(|end| self.falls_silent(at, end));
    }

    /// A link lets packets through again. Ends that went down dial again.
    pub fn heal(&mut self, a: usize, b: usize) {
        let Some(at) = self.wire_between(a, b).filter(|at| !self.wires[*at].open) else {
            return;
        };
        let wire = &mut self.wires[at];
        wire.open = true;
        wire.silence += 1;
        if !wire.is_up() {
            // What one end heard of the silence before is void, and its broker may be gone.
            let alone = wire.ends.iter().any(|end| !self.brokers[end.broker].alive);
            if alone {
                (0..2).for_each(|end| self.falls_silent(at, end));
            }
            return self.redial(at);
        }
        for end in 0..2 {
            let again = self.now + self.wires[at].path.delay + self.random.time(PING);
            let epoch = self.wires[at].silence;
            let wire = at;
            self.plan(again, What::Recovered(At { wire, end, epoch }));
            for messages in core::mem::take(&mut self.wires[at].directions[end].held) {
                self.send_frame(at, end, messages);
            }
        }
    }

    /// Both ends of a link measure this.
    pub fn measure(&mut self, a: usize, b: usize, measured: &Measured) {
        let Some(wire) = self.wire_between(a, b) else {
            return;
        };
        for end in self.wires[wire].ends.into_iter().filter(|end| end.up) {
            self.input(end.broker, RoutingInput::LinkMeasured(end.link, measured));
        }
    }

    /// The broker's process is gone, and tells nobody.
    pub fn kill(&mut self, broker: usize) {
        let it = &mut self.brokers[broker];
        it.alive = false;
        if let Some(at) = it.timer.take() {
            self.timers.remove(&(at, broker));
        }
        for wire in self.wires_of(broker) {
            let near = self.wires[wire].end_of(broker);
            self.wires[wire].ends[near].up = false;
            if self.wires[wire].open {
                self.wires[wire].silence += 1;
                self.falls_silent(wire, 1 - near);
            }
        }
    }

    /// The broker stops in good order, and its neighbours notice at once.
    pub fn stop(&mut self, broker: usize) {
        let fars: Vec<usize> = self.neighbours(broker).map(|(_, far)| far).collect();
        fars.into_iter().for_each(|far| self.unlink(broker, far));
        self.kill(broker);
    }

    /// Starts a broker anew: it remembers nothing but its links, which it dials.
    pub fn restart(&mut self, broker: usize) {
        self.kill(broker);
        let it = &self.brokers[broker];
        let (life, slowness) = (it.life.wrapping_add(1), it.slowness);
        self.brokers[broker] = Broker::new(broker, life);
        self.brokers[broker].slowness = slowness;
        self.pump(broker);
        for wire in self.wires_of(broker) {
            self.redial(wire);
        }
    }

    /// Neighbours by links that are up at both ends and let packets through.
    pub fn neighbours(&self, broker: usize) -> impl Iterator<Item = (LinkId, usize)> + '_ {
        let wires = self.ports[broker].iter();
        let up = wires.filter(|(_, wire)| self.wires[**wire].open && self.wires[**wire].is_up());
        up.map(move |(link, wire)| (*link, self.far(*wire, broker)))
    }

    /// Every link there ever was, by its brokers, and whether it lets packets through.
    pub fn links(&self) -> impl Iterator<Item = (usize, usize, bool)> + '_ {
        let wires = self.wires.iter();
        wires.map(|wire| (wire.ends[0].broker, wire.ends[1].broker, wire.open))
    }

    /// Links between each broker and all others; `None` where there is no way.
    #[must_use]
    pub fn distances(&self, from: usize) -> Vec<Option<usize>> {
        let mut distances = vec![None; self.brokers.len()];
        if self.brokers[from].alive {
            distances[from] = Some(0);
        }
        let mut edge = vec![from];
        while let Some(near) = edge.first().copied() {
            let mut next = Vec::new();
            let hops = distances[near].map(|hops| hops + 1);
            for near in edge {
                for (_, far) in self.neighbours(near) {
                    if distances[far].is_none() {
                        distances[far] = hops;
                        next.push(far);
                    }
                }
            }
            edge = next;
        }
        distances
    }

    /// The neighbour that a link leads to.
    #[must_use]
    pub fn peer(&self, broker: usize, link: LinkId) -> Option<usize> {
        let wire = self.ports[broker].get(&link)?;
        Some(self.far(*wire, broker))
    }

    fn far(&self, wire: usize, near: usize) -> usize {
        let wire = &self.wires[wire];
        wire.ends[1 - wire.end_of(near)].broker
    }

    fn wires_of(&self, broker: usize) -> Vec<usize> {
        self.ports[broker].values().copied().collect()
    }

    fn wire_between(&self, a: usize, b: usize) -> Option<usize> {
        let mut wires = self.ports[a].values().copied();
        wires.find(|wire| self.far(*wire, a) == b)
    }

    fn free_link(&self, broker: usize) -> LinkId {
        LinkId(self.ports[broker].len() as u16)
    }

    fn connect(&mut self, wire: usize) {
        let brokers = self.wires[wire].ends.map(|end| end.broker);
        if brokers.iter().any(|broker| !self.brokers[*broker].alive) {
            return;
        }
        self.wires[wire].renew(self.now);
        (0..2).for_each(|end| self.end_down(wire, end));
        let measured = self.wires[wire].path.measured();
        for end in &mut self.wires[wire].ends {
            end.up = true;
        }
        for end in self.wires[wire].ends {
            let far = id_of(self.far(wire, end.broker));
            let up = RoutingInput::LinkUp(end.link, far);
            self.brokers[end.broker].routing.handle(self.now, up);
            let measured = RoutingInput::LinkMeasured(end.link, &measured);
            self.input_both(end.broker, measured, StreamInput::LinkUp(end.link));
        }
    }

    /// Dials until the link is up or cut, as the end that dials does.
    fn redial(&mut self, wire: usize) {
        let it = &self.wires[wire];
        let alive = it.ends.iter().all(|end| self.brokers[end.broker].alive);
        if it.is_up() || !it.open || !alive {
            return;
        }
        let (round_trip, epoch) = (it.path.delay * 2, it.session);
        let pause = PING + self.random.time(PING * 2);
        let at = At {
            wire,
            end: 0,
            epoch,
        };
        self.plan(self.now + round_trip + pause, What::Connect(at));
    }

    pub(super) fn connect_planned(&mut self, at: At) {
        let wire = &self.wires[at.wire];
        if wire.session == at.epoch && wire.open && !wire.is_up() {
            self.connect(at.wire);
        }
    }

    fn end_down(&mut self, wire: usize, end: usize) {
        let it = &mut self.wires[wire].ends[end];
        it.suspect = false;
        if !core::mem::replace(&mut it.up, false) {
            return;
        }
        let (broker, link) = (it.broker, it.link);
        self.input_both(
            broker,
            RoutingInput::LinkDown(link),
            StreamInput::LinkDown(link),
        );
    }

    /// An end hears the last of what is on its way, and the last ping some time before that.
    fn falls_silent(&mut self, wire: usize, end: usize) {
        let it = &self.wires[wire];
        if !it.ends[end].up {
            return;
        }
        let at = At {
            wire,
            end,
            epoch: it.silence,
        };
        let last = self.now + it.path.delay;
        if it.directions[1 - end].lively.is_so(self.now) {
            let early = self.random.time(PING);
            return self.notices(at, last, (early, 1));
        }
        // It asks when its next question is due, or that of its peer overdue; or by what it has to
        // say before.
        let asks = match end {
            0 => self.random.time(Timing::MEASURED),
            _ => Timing::UNASKED - self.random.time(Timing::MEASURED),
        };
        let asks = self.now + asks;
        self.asks(at, asks);
    }

    /// An end asks what will have no answer.
    fn asks(&mut self, at: At, now: Time) {
        let since = now + self.wires[at.wire].patience();
        self.notices(at, since, (Duration::ZERO, Timing::PATIENCE));
    }

    /// An end takes the silence since then for what it is; so much sooner, or so many times later.
    fn notices(&mut self, at: At, since: Time, (sooner, times): (Duration, u32)) {
        let after = |time: Duration| since + (time * times).saturating_sub(sooner);
        if let Some(suspect) = LIVENESS.suspect_after {
            self.plan(after(suspect), What::Suspect(at));
        }
        self.plan(after(LIVENESS.dead_after), What::Down(at));
    }

    pub(super) fn suspect(&mut self, at: At) {
        if let Some(link) = self.silent_end(at)
            && !self.wires[at.wire].ends[at.end].suspect
        {
            self.wires[at.wire].ends[at.end].suspect = true;
            let broker = self.wires[at.wire].ends[at.end].broker;
            self.input(broker, RoutingInput::LinkSuspect(link));
        }
    }

    pub(super) fn recovered(&mut self, at: At) {
        let Some(link) = self.silent_end(at) else {
            return;
        };
        let end = &mut self.wires[at.wire].ends[at.end];
        if core::mem::take(&mut end.suspect) {
            let broker = end.broker;
            self.input(broker, RoutingInput::LinkRecovered(link));
        }
    }

    pub(super) fn silent_end_down(&mut self, at: At) {
        if self.silent_end(at).is_some() {
            self.end_down(at.wire, at.end);
            self.redial(at.wire);
        }
    }

    fn silent_end(&self, at: At) -> Option<LinkId> {
        let wire = &self.wires[at.wire];
        let end = wire.ends[at.end];
        (end.up && wire.silence == at.epoch).then_some(end.link)
    }

    pub(super) fn send(&mut self, broker: usize, link: LinkId, messages: Vec<Message>) {
        let Some(at) = self.ports[broker].get(&link).copied() else {
            return;
        };
        let wire = &mut self.wires[at];
        let end = wire.end_of(broker);
        if !wire.ends[end].up {
            return;
        }
        let (open, silent) = (wire.open, !wire.open || !wire.ends[1 - end].up);
        let epoch = wire.silence;
        if open {
            self.send_frame(at, end, messages);
        } else {
            wire.directions[end].held.push(messages);
        }
        if silent {
            let wire = at;
            self.asks(At { wire, end, epoch }, self.now);
        }
    }

    fn send_frame(&mut self, wire: usize, from: usize, messages: Vec<Message>) {
        let it = &mut self.wires[wire];
        let bytes = it.count(from, &messages);
        let end = 1 - from;
        let load = (bytes, self.brokers[it.ends[end].broker].slowness);
        let arrives = it.frame_arrives(self.now, from, load, &mut self.random);
        let epoch = it.session;
        let at = At { wire, end, epoch };
        self.plan(arrives, What::Frame(at, messages));
    }

    pub(super) fn send_event(&mut self, broker: usize, link: LinkId, event: Event) {
        let Some(at) = self.ports[broker].get(&link).copied() else {
            return;
        };
        let wire = &mut self.wires[at];
        let from = wire.end_of(broker);
        let far = wire.ends[1 - from].broker;
        if !wire.ends[from].up {
            return;
        }
        wire.directions[from].lively.sent(self.now, 1);
        let bytes = self.event_bytes.get(&event.stream);
        wire.directions[from].cost.monitoring += bytes.copied().unwrap_or(0);
        self.traffic.crossed(event, (broker, far));
        let Some(arrives) = wire.event_arrives(self.now, &mut self.random) else {
            return;
        };
        let place = At {
            wire: at,
            end: 1 - from,
            epoch: wire.session,
        };
        let arrives = arrives + self.brokers[far].slowness;
        self.plan(arrives, What::Event(place, event));
    }
}
