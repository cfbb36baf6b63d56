//! Nodes by which a film can be played, and which of them were tried.

use std::net::SocketAddr;

use crate::answers::Node;

/// Nodes that are remembered of what a session was told.
const TOLD_MAX: usize = 256;

/// The front, and those that can take its place.
#[derive(Debug)]
pub(crate) struct Fronts {
    /// Who is asked now.
    own: Option<SocketAddr>,
    given: Vec<SocketAddr>,
    told: Vec<SocketAddr>,
    /// Those that failed since one of them answered.
    failed: Vec<SocketAddr>,
}

impl Fronts {
    pub(crate) const fn new(own: Option<SocketAddr>, given: Vec<SocketAddr>) -> Self {
        Self {
            own,
            given,
            told: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Who is asked now.
    pub(crate) const fn own(&self) -> Option<SocketAddr> {
        self.own
    }

    /// The one that is asked now has answered, and told of these.
    pub(crate) fn answered(&mut self, nodes: &[Node]) {
        self.failed.clear();
        let told = nodes.iter().filter_map(|node| node.rtsp.as_ref());
        let told = told.filter_map(|rtsp| rtsp.parse().ok());
        self.told = told.take(TOLD_MAX).collect();
    }

    /// Whether there is another one.
    pub(crate) fn has_other(&self) -> bool {
        self.other().is_some()
    }

    /// The one that is asked now has failed: who is to be asked instead.
    pub(crate) fn next(&mut self) -> Option<SocketAddr> {
        let next = self.other()?;
        self.failed.extend(self.own.replace(next));
        Some(next)
    }

    /// Those of which the archive told are there, or were a moment ago.
    fn other(&self) -> Option<SocketAddr> {
        let all = self.told.iter().chain(&self.given).copied();
        let mut others = all.filter(|front| Some(*front) != self.own);
        others.find(|front| !self.failed.contains(front))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u16) -> Node {
        Node {
            number,
            rtp: None,
            rtcp: None,
            rtsp: Some(format!("192.0.2.{number}:8554")),
            ssrc: 1,
        }
    }

    fn at(number: u16) -> SocketAddr {
        node(number).rtsp.unwrap().parse().unwrap()
    }

    #[test]
    fn each_is_tried_once_until_one_answers() {
        let mut fronts = Fronts::new(Some(at(1)), vec![at(9), at(2)]);
        fronts.answered(&[node(1), node(2), node(3)]);
        assert_eq!(fronts.next(), Some(at(2)));
        assert_eq!(fronts.next(), Some(at(3)));
        assert_eq!(fronts.next(), Some(at(9)));
        assert_eq!((fronts.has_other(), fronts.next()), (false, None));
        fronts.answered(&[node(1), node(9)]);
        assert_eq!(fronts.next(), Some(at(1)));
    }
}
