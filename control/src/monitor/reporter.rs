//! Publishes what a broker reports, what its thresholds say, and what a scheduler plans.

use std::time::Duration;

use sangam_client::{Client, ClientError, Outgoing, Publisher};
use sangam_model::{BrokerId, MediaInfo, StreamId, Topic};

use super::report::BrokerReport;
use super::{AGGREGATES, ALERTS, PLANS, REPORTS, parts};

/// How long the broker may take to accept a publication.
const ANSWER: Duration = Duration::from_secs(5);

/// Where one speaker's reports and alerts go.
#[derive(Debug)]
pub struct Reporter {
    client: Client,
    reports: Publisher,
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
        Self::new(client, REPORTS, &broker.to_string())
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
        let under = |above: &str| {
            let topic = Topic::new(&format!("{above}/{name}"));
            topic.expect("broker ids and checked names are levels of a topic")
        };
        let reports = client.publish(&under(above), MediaInfo::data(), ANSWER)?;
        Ok(Self {
            client,
            reports,
            alerts: under(ALERTS),
            alerting: None,
        })
    }

    /// Publishes a report; what cannot leave is dropped, the next one says more.
    pub fn report(&mut self, report: &BrokerReport) {
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

fn send(publisher: &mut Publisher, payload: &[u8]) {
    if let Err(error) = publisher.send(Outgoing::new(payload)) {
        tracing::debug!(%error, "a report was dropped");
    }
}
