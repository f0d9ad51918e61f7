//! Answers that many ask for, rendered at most twice a second however many they are.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use bytes::Bytes;
use evb::run_control::{Refusal, RunControl, Shown, Status};
use serde::Serialize;
use tokio::sync::{Mutex, watch};

use super::{guard::Access, metrics};

/// How old an answer may be.
const AGE: Duration = Duration::from_millis(500);

/// How many samples are kept here, as by whoever leads.
const SAMPLES: usize = 3600;

/// What is asked for again and again, as it was rendered last.
pub(super) struct Rendered {
    lead: RunControl,
    host: String,
    pages: Mutex<Pages>,
    samples: Mutex<Samples>,
}

struct Pages {
    /// Something changed by a command, or by itself.
    shown: watch::Receiver<Shown>,
    at: Option<Instant>,
    status: Status,
    /// Rendered when the first one asks; none of an older status.
    operator: Option<Bytes>,
    viewer: Option<Bytes>,
    open_metrics: Option<Bytes>,
    plain_metrics: Option<Bytes>,
}

#[derive(Default)]
struct Samples {
    at: Option<Instant>,
    /// Each by its number, as JSON.
    rendered: VecDeque<(u64, Bytes)>,
}

/// A status, and what only the server knows.
#[derive(Serialize)]
struct Page<'s> {
    #[serde(flatten)]
    status: &'s Status,
    access: Access,
    host: &'s str,
    version: &'static str,
}

/// In which words metrics are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricsFormat {
    /// OpenMetrics 1.0.
    Open,
    /// The older text format.
    Plain,
}

impl Rendered {
    pub(super) fn new(lead: RunControl) -> Self {
        let mut shown = lead.watch();
        shown.mark_unchanged();
        let pages = Pages {
            shown,
            at: None,
            status: Status::default(),
            operator: None,
            viewer: None,
            open_metrics: None,
            plain_metrics: None,
        };
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            lead,
            host: host.trim().to_owned(),
            pages: Mutex::new(pages),
            samples: Mutex::new(Samples::default()),
        }
    }

    /// A command was given: what is rendered is old.
    pub(super) async fn forget(&self) {
        self.pages.lock().await.at = None;
    }

    /// The status, as JSON.
    pub(super) async fn status(&self, access: Access) -> Result<Bytes, Refusal> {
        let mut pages = self.pages.lock().await;
        self.refresh(&mut pages).await?;
        let Pages { status, operator, viewer, .. } = &mut *pages;
        let place = if access == Access::Operator { operator } else { viewer };
        let render = || {
            let page = Page { status, access, host: &self.host, version: env!("CARGO_PKG_VERSION") };
            let mut text = serde_json::to_vec(&page).unwrap_or_default();
            text.push(b'\n');
            text.into()
        };
        Ok(place.get_or_insert_with(render).clone())
    }

    /// The metrics.
    pub(super) async fn metrics(&self, format: MetricsFormat) -> Result<Bytes, Refusal> {
        let mut pages = self.pages.lock().await;
        self.refresh(&mut pages).await?;
        let Pages { status, open_metrics, plain_metrics, .. } = &mut *pages;
        let open = open_metrics.get_or_insert_with(|| metrics::render(status.clone()).into());
        Ok(match format {
            MetricsFormat::Open => open.clone(),
            MetricsFormat::Plain => {
                let render = || metrics::in_plain_text(&String::from_utf8_lossy(open)).into();
                plain_metrics.get_or_insert_with(render).clone()
            }
        })
    }

    async fn refresh(&self, pages: &mut Pages) -> Result<(), Refusal> {
        let is_old = pages.at.is_none_or(|at| at.elapsed() >= AGE);
        // Whoever leads may have gone, which asking will tell.
        let has_changed = pages.shown.has_changed().unwrap_or(true);
        if is_old || has_changed {
            pages.shown.mark_unchanged();
            pages.status = self.lead.status().await?;
            (pages.operator, pages.viewer) = (None, None);
            (pages.open_metrics, pages.plain_metrics) = (None, None);
            pages.at = Some(Instant::now());
        }
        Ok(())
    }

    /// The samples after that one, as JSON.
    pub(super) async fn history(&self, after: u64) -> Result<Bytes, Refusal> {
        let mut samples = self.samples.lock().await;
        if samples.at.is_none_or(|at| at.elapsed() >= AGE) {
            let last = samples.rendered.back().map_or(0, |(number, _)| *number);
            for sample in self.lead.history(last).await? {
                let text = serde_json::to_vec(&sample).unwrap_or_default();
                samples.rendered.push_back((sample.n, text.into()));
            }
            let extra = samples.rendered.len().saturating_sub(SAMPLES);
            samples.rendered.drain(..extra);
            samples.at = Some(Instant::now());
        }
        let next = samples.rendered.back().map_or(after, |(number, _)| *number);
        let mut text = format!("{{\"next\":{next},\"samples\":[").into_bytes();
        let first = samples.rendered.partition_point(|(number, _)| *number <= after);
        for (index, (_, sample)) in samples.rendered.range(first..).enumerate() {
            if index > 0 {
                text.push(b',');
            }
            text.extend_from_slice(sample);
        }
        text.extend_from_slice(b"]}\n");
        Ok(text.into())
    }
}
