//! Counts every request once: with its answer, or as one whose client left before.

use std::time::Instant;

use http::{Method, StatusCode};

use crate::metrics::Metrics;
use crate::service::Service;

/// The status of a request whose client left before there was an answer; no client ever sees it.
const LEFT: u16 = 499;
/// The route of what has none, and the method of what is no method of the table.
const OTHER: &str = "_other";

/// A request that is counted when the value goes.
pub(super) struct Count {
    metrics: Metrics,
    route: &'static str,
    method: &'static str,
    begun: Instant,
    status: u16,
}

impl Count {
    /// Begins to time a request.
    pub(super) fn begin(service: &Service, route: &'static str, method: &'static str) -> Self {
        let metrics = service.metrics().clone();
        Self { metrics, route, method, begun: Instant::now(), status: LEFT }
    }

    /// Begins to time a request that no route answers.
    pub(super) fn astray(service: &Service, method: &Method) -> Self {
        let known = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"];
        let method = known.into_iter().find(|known| *known == method.as_str());
        Self::begin(service, OTHER, method.unwrap_or(OTHER))
    }

    /// Counts the request with its answer.
    pub(super) fn answered(mut self, status: StatusCode) {
        self.status = status.as_u16();
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        let (route, method, status, time) =
            (self.route, self.method, self.status, self.begun.elapsed());
        self.metrics.request(route, method, status, time);
        tracing::debug!(route, method, status, ?time, "answered");
    }
}
