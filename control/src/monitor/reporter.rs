//! Publishes what a broker reports, what its thresholds say, and what a scheduler plans.

use std::time::Duration;

use sangam_client::{Client, ClientError, Outgoing, Publisher};
use sangam_model::{BrokerId, MediaInfo, StreamId, Time, Topic};

use super::measured::Measured;
use super::report::BrokerReport;
use super::{AGGREGATES, ALERTS, MEASURED, PLANS, REPORTS, parts};

/// How long the broker may take to accept a publication.
const ANSWER: Duration = Duration::from_secs(5);

/// Where one speaker's reports and alerts go.
#[derive(Debug)]
pub struct Reporter {
    client: Client,
    reports: Publisher,
    /// Of a broker: what it tells schedulers.
    measured: Option<(Publisher, Measured)>,
    alerts: Topic,
    /// Most brokers never have one.
    alerting: Option<Publisher>,
}

impl Reporter {
    /// Reports of a broker, through a system door of its own.
    ///
    /// # Errors
    /// The broker does not take the publication.
    pub fn of_broker(client: Client, broker: BrokerId) -> Result<Self, ClientError> {
        let name = broker.to_string();
        let mut reporter = Self::new(client, REPORTS, &name)?;
        let topic = under(MEASURED, &name);
        let publisher = reporter.client.publish(&topic, MediaInfo::data(), ANSWER)?;
        reporter.measured = Some((publisher, Measured::default()));
        Ok(reporter)
    }

    /// Reports that an aggregation node passes on, under its name (one level of a topic).
    ///
    /// # Errors
    /// The broker does not take the publication, for instance from this address.
    pub fn of_aggregate(client: Client, name: &str) -> Result<Self, ClientError> {
        Self::new(client, AGGREGATES, name)
    }

    /// Plans of a scheduler, under its name (one level of a topic).
    ///
    /// # Errors
    /// As [`Reporter::of_aggregate`].
    pub fn of_scheduler(client: Client, name: &str) -> Result<Self, ClientError> {
        Self::new(client, PLANS, name)
    }

    fn new(mut client: Client, above: &str, name: &str) -> Result<Self, ClientError> {
        let reports = client.publish(&under(above, name), MediaInfo::data(), ANSWER)?;
        Ok(Self {
            client,
            reports,
            measured: None,
            alerts: under(ALERTS, name),
            alerting: None,
        })
    }

    /// Publishes a report that was measured now; what cannot leave is dropped, the next one says
    /// more.
    pub fn report(&mut self, now: Time, report: &BrokerReport) {
        if let Some((publisher, measured)) = &mut self.measured {
            send(publisher, &measured.tell(now, report));
        }
        for payload in parts::cut(report) {
            send(&mut self.reports, &payload);
        }
    }

    /// Publishes something as it is.
    pub fn tell(&mut self, payload: &[u8]) {
        send(&mut self.reports, payload);
    }

    /// By which stream it speaks; another one after each reconnection, none without a link.
    #[must_use]
    pub fn stream(&self) -> Option<StreamId> {
        self.reports.stream()
    }

    /// The client itself, for other wishes.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Publishes an alert as JSON.
    pub fn alert(&mut self, json: &str) {
        if self.alerting.is_none() {
            match self.client.publish(&self.alerts, MediaInfo::data(), ANSWER) {
                Ok(publisher) => self.alerting = Some(publisher),
                Err(error) => tracing::warn!(%error, "an alert cannot be published"),
            }
        }
        if let Some(alerts) = &mut self.alerting {
            send(alerts, json.as_bytes());
        }
    }

    /// Takes what the broker says, so that its queue towards this client does not fill. False once
    /// the broker has stopped.
    pub fn is_heard(&mut self) -> bool {
        while self.client.try_recv().is_some() {}
        !self.client.is_closed()
    }
}

fn under(above: &str, name: &str) -> Topic {
    let topic = Topic::new(&format!("{above}/{name}"));
    topic.expect("broker ids and checked names are levels of a topic")
}

fn send(publisher: &mut Publisher, payload: &[u8]) {
    if let Err(error) = publisher.send(Outgoing::new(payload)) {
        tracing::debug!(%error, "a report was dropped");
    }
}
