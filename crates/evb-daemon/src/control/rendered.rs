//! Answers that many clients ask for. Each answer is rendered at most twice a second for any number
//! of clients.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use bytes::Bytes;
use evb::{
    Watch,
    run_control::{Refusal, RunControl, Shown, Status},
};
use serde::Serialize;
use tokio::sync::Mutex;

use super::{guard::Access, metrics};
use crate::hooks::{HookStatus, Hooks};

/// Age from which an answer must be rendered again.
const AGE: Duration = Duration::from_millis(500);

/// Limit of the number of samples that are kept, the same as that of the leader.
const SAMPLES: usize = 3600;

/// The latest rendering of answers that clients request often.
pub(super) struct Rendered {
    lead: RunControl,
    hooks: Hooks,
    host: String,
    pages: Mutex<Pages>,
    samples: Mutex<Samples>,
}

struct Pages {
    /// Signal that a command or the run itself changed something.
    shown: Watch<Shown>,
    at: Option<Instant>,
    status: Status,
    hooks: Vec<HookStatus>,
    /// Status for operators, rendered on the first request; `None` after the status has changed.
    operator: Option<Bytes>,
    viewer: Option<Bytes>,
    open_metrics: Option<Bytes>,
    plain_metrics: Option<Bytes>,
}

#[derive(Default)]
struct Samples {
    at: Option<Instant>,
    /// Each sample with its number, as JSON.
    rendered: VecDeque<(u64, Bytes)>,
}

/// A status with the facts that only the server has.
#[derive(Serialize)]
struct Page<'s> {
    #[serde(flatten)]
    status: &'s Status,
    hooks: &'s [HookStatus],
    access: Access,
    host: &'s str,
    version: &'static str,
}

/// The format in which metrics are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricsFormat {
    /// OpenMetrics 1.0.
    Open,
    /// The older text format.
    Plain,
}

impl Rendered {
    /// Creates the pages, which are rendered when they are asked for.
    pub(super) fn new(lead: RunControl, hooks: Hooks) -> Self {
        let mut shown = lead.watch();
        shown.see();
        let pages = Pages {
            shown,
            at: None,
            status: Status::default(),
            hooks: Vec::new(),
            operator: None,
            viewer: None,
            open_metrics: None,
            plain_metrics: None,
        };
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Self {
            lead,
            hooks,
            host: host.trim().to_owned(),
            pages: Mutex::new(pages),
            samples: Mutex::new(Samples::default()),
        }
    }

    /// Discards the rendered answers, because a command was given.
    pub(super) async fn forget(&self) {
        self.pages.lock().await.at = None;
    }

    /// Returns the status as JSON.
    pub(super) async fn status(&self, access: Access) -> Result<Bytes, Refusal> {
        let mut pages = self.pages.lock().await;
        self.refresh(&mut pages).await?;
        let Pages { status, hooks, operator, viewer, .. } = &mut *pages;
        let place = if access == Access::Operator { operator } else { viewer };
        let render = || {
            let page = Page { status, hooks, access, host: &self.host, version: env!("CARGO_PKG_VERSION") };
            let mut text = serde_json::to_vec(&page).unwrap_or_default();
            text.push(b'\n');
            text.into()
        };
        Ok(place.get_or_insert_with(render).clone())
    }

    /// Returns the metrics in the requested format.
    pub(super) async fn metrics(&self, format: MetricsFormat) -> Result<Bytes, Refusal> {
        let mut pages = self.pages.lock().await;
        self.refresh(&mut pages).await?;
        let Pages { status, hooks, open_metrics, plain_metrics, .. } = &mut *pages;
        let open = open_metrics.get_or_insert_with(|| metrics::render(status.clone(), hooks.clone()).into());
        Ok(match format {
            MetricsFormat::Open => open.clone(),
            MetricsFormat::Plain => {
                let render = || metrics::in_plain_text(&String::from_utf8_lossy(open)).into();
                plain_metrics.get_or_insert_with(render).clone()
            }
        })
    }

    /// Forgets the rendered pages if the status may have changed since.
    async fn refresh(&self, pages: &mut Pages) -> Result<(), Refusal> {
        let is_old = pages.at.is_none_or(|at| at.elapsed() >= AGE);
        // `has_changed` is also true when the leader has ended; then asking for the status fails.
        if is_old || pages.shown.has_changed() {
            pages.shown.see();
            pages.status = self.lead.status().await?;
            pages.hooks = self.hooks.status();
            (pages.operator, pages.viewer) = (None, None);
            (pages.open_metrics, pages.plain_metrics) = (None, None);
            pages.at = Some(Instant::now());
        }
        Ok(())
    }

    /// Returns the samples after number `after` as JSON.
    pub(super) async fn history(&self, after: u64) -> Result<Bytes, Refusal> {
        let mut samples = self.samples.lock().await;
        // New samples are rendered at most once in this time, and then serve all clients.
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
        // The samples are in the order of their numbers.
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
