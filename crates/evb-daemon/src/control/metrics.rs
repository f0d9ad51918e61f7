//! The status for Prometheus, in OpenMetrics, or in the older text format for clients that do not
//! ask for OpenMetrics.
//!
//! Totals continue over the runs of a process, so that events just before the end of a run still
//! count afterwards. Values that peers report start again from zero with each run and each
//! incarnation of a peer, as counters of a restarted process do. No metric has the run number or
//! the lane as a label: 256 × 256 lanes would make 65 536 series.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
};

use crate::hooks::HookStatus;
use evb::run_control::{Problem, Severity, State, Status};
use evb_core::{
    ledger::{self, IGNORED_TRIGGERS, Metric},
    live::Latencies,
    supervisor::{AlignmentState, BuilderLive, BuilderSurvey, Presence, SourceLive, SourceSurvey, Survey},
    trigger::numbers::AnnouncementCounts,
};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeCounterValue, NoLabelSet},
    metrics::MetricType,
    registry::Registry,
};

/// Content type of the answer in OpenMetrics.
pub(super) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Content type of the answer in the older text format.
pub(super) const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Number of buckets of latency histograms, which reach up to 17 s.
const OCTAVES: usize = 23;

const STATES: [State; 6] =
    [State::Unconfigured, State::Configured, State::Running, State::Paused, State::Stopping, State::Failed];

/// Returns the metrics of a status in OpenMetrics.
pub(super) fn render(status: Status, hooks: Vec<HookStatus>) -> String {
    let mut registry = Registry::with_prefix("evb");
    registry.register_collector(Box::new(Snapshot { status, hooks }));
    let mut text = String::new();
    // Writing into memory cannot fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

/// Converts metrics to the older text format, in which the name of a counter ends in `_total` in
/// its type line, too.
pub(super) fn in_plain_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let counters: HashSet<&str> = open_metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    for line in open_metrics.lines() {
        let said = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "));
        match said.and_then(|said| said.split_once(' ')) {
            Some((name, rest)) if counters.contains(name) => {
                // The first seven bytes are `# HELP ` or `# TYPE `.
                text += &format!("{}{name}_total {rest}\n", &line[..7]);
            }
            _ if line == "# EOF" || line.starts_with("# UNIT ") => {}
            _ => {
                text += line;
                text.push('\n');
            }
        }
    }
    text
}

/// The facts from which the metrics of one answer are made.
#[derive(Debug)]
struct Snapshot {
    status: Status,
    hooks: Vec<HookStatus>,
}

type Labels = Vec<(&'static str, String)>;

/// Writer of families of metrics.
struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    fn counters<V: EncodeCounterValue>(
        &mut self,
        name: &'static str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, V)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_counter::<NoLabelSet, V, f64>(&value, None)?;
        }
        Ok(())
    }

    fn gauges(
        &mut self,
        name: &'static str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// Writes the metrics of the counters that peers report. Each item is a peer's labels and its
    /// latest report, if there is one.
    fn reported<'l, L: 'l>(
        &mut self,
        counters: &[ledger::Counter<L>],
        peers: impl Iterator<Item = (Labels, Option<&'l L>)> + Clone,
    ) -> fmt::Result {
        for counter in counters {
            let values = peers.clone().filter_map(|(labels, live)| Some((labels, (counter.value)(live?))));
            match counter.metric {
                None => {}
                Some(Metric::Counter(name)) => self.counters(name, counter.sentence(), values)?,
                Some(Metric::Gauge(name)) => {
                    let values = values.map(|(labels, value)| (labels, value as f64));
                    self.gauges(name, counter.sentence(), values)?;
                }
            }
        }
        Ok(())
    }

    /// Encodes a family of histograms. Times above the last bucket count in the one without an
    /// upper end.
    fn histograms<'l>(
        &mut self,
        name: &'static str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, &'l Latencies)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, latencies) in values {
            let mut buckets: Vec<(f64, u64)> = latencies
                .octaves()
                .take(OCTAVES)
                .map(|(end, count)| (end.as_micros() as f64 / 1e6, count))
                .collect();
            let within: u64 = buckets.iter().map(|(_, count)| count).sum();
            buckets.push((f64::INFINITY, latencies.count().saturating_sub(within)));
            let (sum, count) = (latencies.sum().as_secs_f64(), latencies.count());
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}

impl Collector for Snapshot {
    /// Writes all metrics; those of peers are left out while there is no run.
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(encoder);
        of_process(&self.status, &mut families)?;
        of_events(&self.status, &mut families)?;
        of_problems(&self.status.problems, &mut families)?;
        of_hooks(&self.hooks, &mut families)?;
        let Some(survey) = &self.status.survey else { return Ok(()) };
        of_triggers(&survey.triggers, &mut families)?;
        of_peers(survey, &mut families)?;
        of_sources(&survey.sources, &mut families)?;
        of_builders(&survey.builders, &mut families)
    }
}

/// Encodes the metrics of this process and of run control.
fn of_process(status: &Status, families: &mut Families<'_>) -> fmt::Result {
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    families.gauges("build_info", "The version of the program.", [(version, 1.0)])?;
    let states = STATES.map(|state| {
        (vec![("state", state.to_string().to_lowercase())], f64::from(u8::from(state == status.state)))
    });
    families.gauges("run_state", "1 for the state of run control, else 0.", states)?;
    let number = status.run.map(|run| (Labels::new(), f64::from(run)));
    families.gauges("run_number", "The run that is under way, or the next one.", number)?;
    let id = status.run_id.map(|id| (vec![("id", id.to_string())], 1.0));
    families.gauges("run_info", "The id of the run that is under way, or of the next one.", id)?;
    families.counters("runs", "Runs of this process that are over.", [(Labels::new(), status.runs)])?;
    let seconds = status.survey.as_ref().map_or(0.0, |survey| survey.running_s);
    families.gauges("run_seconds", "Time since the run began, pauses included.", [(Labels::new(), seconds)])
}

/// Encodes the metrics of triggers and events, over all runs of this process.
fn of_events(status: &Status, families: &mut Families<'_>) -> fmt::Result {
    let (totals, events) = (&status.totals, &status.totals.events);
    families.counters(
        "triggers",
        "Triggers of all runs of this process.",
        [(Labels::new(), events.triggered)],
    )?;
    let outcomes = [
        ("complete", events.complete),
        ("incomplete", events.incomplete),
        ("rejected", events.rejected),
        ("lost", events.lost),
        ("inhibited", events.inhibited),
    ];
    let outcomes = outcomes.map(|(outcome, count)| (vec![("outcome", outcome.to_owned())], count));
    families.counters("events", "Triggers by what became of them.", outcomes)?;
    let causes = totals.dead_time.iter().map(|(cause, count)| (vec![("cause", cause.clone())], *count));
    families.counters("dead_time_triggers", "Inhibited triggers by the cause of the dead time.", causes)?;
    let payload = [(Labels::new(), totals.payload_bytes)];
    families.counters("payload_bytes", "Payload that sinks accepted.", payload)?;
    let outstanding = status.survey.as_ref().map_or(0, |survey| survey.outstanding);
    let outstanding = [(Labels::new(), outstanding as f64)];
    families.gauges(
        "outstanding_events",
        "Events that builders have been given, and that have no outcome yet.",
        outstanding,
    )
}

/// Encodes the metrics of external triggers that were ignored.
fn of_triggers(triggers: &AnnouncementCounts, families: &mut Families<'_>) -> fmt::Result {
    let counts = IGNORED_TRIGGERS.iter().filter_map(|counter| {
        let (_, why) = counter.unused?;
        Some((vec![("why", why.to_owned())], (counter.value)(triggers)))
    });
    families.counters("ignored_triggers", "External triggers that were not taken, by the reason.", counts)?;
    let restarts = [(Labels::new(), triggers.restarts)];
    families.counters("trigger_restarts", "How often the trigger program began to count again.", restarts)
}

/// Encodes the metrics of hooks.
fn of_hooks(hooks: &[HookStatus], families: &mut Families<'_>) -> fmt::Result {
    let labels = |hook: &HookStatus, outcome: &str| {
        vec![("hook", hook.hook.to_owned()), ("outcome", outcome.to_owned())]
    };
    let outcomes = hooks.iter().flat_map(|hook| {
        let outcomes = [("succeeded", hook.succeeded), ("failed", hook.failed), ("dropped", hook.dropped)];
        outcomes.map(|(outcome, count)| (labels(hook, outcome), count))
    });
    families.counters("hook_calls", "Calls of the programs of hooks by what became of them.", outcomes)?;
    let pending = hooks.iter().map(|hook| (vec![("hook", hook.hook.to_owned())], hook.pending as f64));
    families.gauges("hook_pending_calls", "Calls of the programs of hooks that wait or run.", pending)
}

/// Counts problems by severity and subject. Texts of problems contain numbers that change, and as a
/// label each change would make a new series.
fn of_problems(problems: &[Problem], families: &mut Families<'_>) -> fmt::Result {
    let mut counts: BTreeMap<(Severity, &str), u32> = BTreeMap::new();
    for problem in problems {
        *counts.entry((problem.severity, &problem.subject)).or_default() += 1;
    }
    let counts = counts.into_iter().map(|((severity, subject), count)| {
        let severity = match severity {
            Severity::Bad => "bad",
            Severity::Warning => "warning",
        };
        let labels = vec![("severity", severity.to_owned()), ("subject", subject.to_owned())];
        (labels, f64::from(count))
    });
    families.gauges(
        "problems",
        "Problems that the status lists, by the source, builder or part that they concern.",
        counts,
    )
}

/// Encodes which sources and builders take part.
fn of_peers(survey: &Survey, families: &mut Families<'_>) -> fmt::Result {
    let label = |role: &str, id: u16| vec![("role", role.to_owned()), ("id", id.to_string())];
    let takes_part = |presence: Presence| matches!(presence, Presence::Up | Presence::NoReadout);
    let up = |presence: Presence| f64::from(u8::from(takes_part(presence)));
    let peers = || {
        let sources =
            survey.sources.iter().map(|peer| (label("source", peer.id), peer.presence, peer.incarnation));
        sources.chain(
            survey.builders.iter().map(|peer| (label("builder", peer.id), peer.presence, peer.incarnation)),
        )
    };
    let help = "1 where a source or builder takes part, else 0.";
    families.gauges("peer_up", help, peers().map(|(labels, presence, _)| (labels, up(presence))))?;
    let help =
        "Which process of the source or builder takes part: 1 for the first, one more after each restart.";
    families.gauges("peer_incarnation", help, peers().map(|(labels, _, life)| (labels, f64::from(life))))
}

/// A counter of a peer: its name, its meaning and its value; `None` before the first report.
type Counter<P> = (&'static str, &'static str, fn(&P) -> Option<u64>);
/// A gauge of a peer: its name, its meaning and its value; `None` before the first report.
type Gauge<P> = (&'static str, &'static str, fn(&P) -> Option<f64>);

const SOURCE_COUNTERS: [Counter<SourceSurvey>; 2] = [
    ("source_missing_events", "Incomplete events without its fragment.", |of| Some(of.missing)),
    ("source_last_events", "Events whose last fragment was this source's.", |of| Some(of.last)),
];

const SOURCE_GAUGES: [Gauge<SourceSurvey>; 9] = [
    ("source_has_readout", "0 where a source takes part whose readout is silent or gone, else 1.", |of| {
        Some(f64::from(u8::from(of.presence != Presence::NoReadout)))
    }),
    (
        "source_is_misaligned",
        "1 while a source delivers fragments of other events, by their timestamps; else 0.",
        |of| Some(f64::from(u8::from(of.alignment.as_ref()?.state == AlignmentState::Misaligned))),
    ),
    ("source_front_ends_connected", "Front ends that are connected.", |of| {
        Some(f64::from(of.front_ends?.connected))
    }),
    ("source_front_ends_expected", "Front ends that should be connected; 0: any number.", |of| {
        Some(f64::from(of.front_ends?.expected))
    }),
    ("source_last_fragment_age_seconds", "Time since its last fragment in the run.", |of| {
        of.live.as_ref()?.last_fragment_age_s
    }),
    (
        "source_backlog_bytes",
        "Payload that waits for the supervisor's decision, which builder gets the event.",
        |of| Some(of.live.as_ref()?.backlog_bytes as f64),
    ),
    ("source_processor_cores", "Cores that its process uses.", |of| {
        Some(of.live.as_ref()?.processor_fraction)
    }),
    ("source_memory_bytes", "Memory of its process.", |of| Some(of.live.as_ref()?.memory_bytes as f64)),
    ("source_report_age_seconds", "Age of its last report.", |of| Some(of.live.as_ref()?.age_s)),
];

const BUILDER_COUNTERS: [Counter<BuilderSurvey>; 5] = [
    ("builder_complete_events", "Events with every fragment that is owed.", |of| Some(of.complete)),
    ("builder_incomplete_events", "Events built with sources missing.", |of| Some(of.incomplete)),
    ("builder_lost_events", "Events lost by the builder or with it.", |of| Some(of.lost)),
    ("builder_written_events", "Events that its sink accepted.", |of| Some(of.live.as_ref()?.written)),
    ("builder_payload_bytes", "Payload that its sink accepted.", |of| Some(of.live.as_ref()?.payload_bytes)),
];

const BUILDER_GAUGES: [Gauge<BuilderSurvey>; 7] = [
    ("builder_slots", "Events that the builder can hold at once (slots).", |of| Some(f64::from(of.slots))),
    ("builder_disk_free_bytes", "Free bytes where its sink writes.", |of| {
        Some(of.live.as_ref()?.sink_free_bytes? as f64)
    }),
    ("builder_disk_size_bytes", "All bytes where its sink writes.", |of| {
        Some(of.live.as_ref()?.sink_size_bytes? as f64)
    }),
    ("builder_commit_age_seconds", "Time since its sink accepted an event.", |of| {
        of.live.as_ref()?.last_commit_age_s
    }),
    ("builder_processor_cores", "Cores that its process uses.", |of| {
        Some(of.live.as_ref()?.processor_fraction)
    }),
    ("builder_memory_bytes", "Memory of its process.", |of| Some(of.live.as_ref()?.memory_bytes as f64)),
    ("builder_report_age_seconds", "Age of its last report.", |of| Some(of.live.as_ref()?.age_s)),
];

/// Returns the labels of a peer's name, which only information metrics have: other metrics keep
/// their series when a name changes.
fn info(role: &'static str, id: u16, name: &str) -> Option<(Labels, f64)> {
    (!name.is_empty()).then(|| (vec![(role, id.to_string()), ("name", name.to_owned())], 1.0))
}

/// Encodes the metrics of each source.
fn of_sources(sources: &[SourceSurvey], families: &mut Families<'_>) -> fmt::Result {
    let label = |source: &SourceSurvey| vec![("source", source.id.to_string())];
    let infos = sources.iter().filter_map(|source| info("source", source.id, &source.name));
    families.gauges("source_info", "The name of a source that has one.", infos)?;
    for (name, help, value) in SOURCE_COUNTERS {
        families.counters(
            name,
            help,
            sources.iter().filter_map(|source| Some((label(source), value(source)?))),
        )?;
    }
    families
        .reported(SourceLive::COUNTERS, sources.iter().map(|source| (label(source), source.live.as_ref())))?;
    let missing = sources.iter().flat_map(|source| {
        source.missing_by_cause.iter().map(|(cause, events)| {
            (vec![("source", source.id.to_string()), ("cause", cause.to_string())], *events)
        })
    });
    let help = "Incomplete events without its fragment, by the cause for which it is missing.";
    families.counters("source_missing_by_cause_events", help, missing)?;
    let absent = sources.iter().map(|source| (label(source), source.absent));
    let help = "Complete events without its fragment, which it did not owe.";
    families.counters("source_absent_events", help, absent)?;
    let unused = sources.iter().filter_map(|source| Some((source.id, source.live.as_ref()?))).flat_map(
        |(id, live)| {
            let label = move |why: &str| vec![("source", id.to_string()), ("why", why.to_owned())];
            live.unused.iter().map(move |(why, count)| (label(why), *count))
        },
    );
    let help = "Fragments that the source did not use, by the reason.";
    families.counters("source_unused_fragments", help, unused)?;
    // Total lateness is rounded to whole nanoseconds. Otherwise a rounding error of the mean could
    // make the value fall, which would look like a counter that was reset.
    let late = |source: &SourceSurvey| (source.last_by_us * 1e3 * source.last as f64).round() / 1e9;
    let late = sources.iter().map(|source| (label(source), late(source)));
    families.counters("source_late_seconds", "How long events waited for this source alone.", late)?;
    for (name, help, value) in SOURCE_GAUGES {
        families.gauges(
            name,
            help,
            sources.iter().filter_map(|source| Some((label(source), value(source)?))),
        )?;
    }
    Ok(())
}

/// Encodes the metrics of each builder.
fn of_builders(builders: &[BuilderSurvey], families: &mut Families<'_>) -> fmt::Result {
    let label = |builder: &BuilderSurvey| vec![("builder", builder.id.to_string())];
    let infos = builders.iter().filter_map(|builder| info("builder", builder.id, &builder.name));
    families.gauges("builder_info", "The name of a builder that has one.", infos)?;
    for (name, help, value) in BUILDER_COUNTERS {
        families.counters(
            name,
            help,
            builders.iter().filter_map(|builder| Some((label(builder), value(builder)?))),
        )?;
    }
    families.reported(
        BuilderLive::COUNTERS,
        builders.iter().map(|builder| (label(builder), builder.live.as_ref())),
    )?;
    for (name, help, value) in BUILDER_GAUGES {
        families.gauges(
            name,
            help,
            builders.iter().filter_map(|builder| Some((label(builder), value(builder)?))),
        )?;
    }
    let slots = builders.iter().flat_map(|builder| {
        let at_sink = u64::from(builder.at_sink);
        [("at_sink", at_sink), ("building", builder.outstanding.saturating_sub(at_sink))].map(
            |(state, count)| {
                (vec![("builder", builder.id.to_string()), ("state", state.to_owned())], count as f64)
            },
        )
    });
    families.gauges("builder_busy_slots", "Slots that are taken, by what their event waits for.", slots)?;
    of_taps(builders, families)?;
    of_filters(builders, families)?;
    let latencies =
        builders.iter().filter_map(|builder| Some((label(builder), &builder.live.as_ref()?.latencies)));
    families.histograms(
        "build_latency_seconds",
        "Time from an event's trigger to its last fragment.",
        latencies,
    )
}

/// Encodes the metrics of the taps of builders.
fn of_taps(builders: &[BuilderSurvey], families: &mut Families<'_>) -> fmt::Result {
    let taps =
        || builders.iter().filter_map(|builder| Some((builder.id.to_string(), builder.live.as_ref()?.tap?)));
    let clients = taps().map(|(id, tap)| (vec![("builder", id)], f64::from(tap.clients)));
    families.gauges("builder_tap_clients", "Clients of its tap that are connected.", clients)?;
    let fates = taps().flat_map(|(id, tap)| {
        [("sent", tap.sent), ("sampled_out", tap.sampled_out), ("dropped", tap.dropped)]
            .map(|(fate, count)| (vec![("builder", id.clone()), ("fate", fate.to_owned())], count))
    });
    let help = "Events that its sink accepted, for each client of its tap, by what became of them.";
    families.counters("builder_tap_events", help, fates)
}

/// Encodes the metrics of filters that are processes.
fn of_filters(builders: &[BuilderSurvey], families: &mut Families<'_>) -> fmt::Result {
    let filters = || {
        builders
            .iter()
            .filter_map(|builder| Some((builder.id.to_string(), builder.live.as_ref()?.filter.as_ref()?)))
    };
    let ready = filters().map(|(id, filter)| (vec![("builder", id)], f64::from(filter.ready)));
    families.gauges("builder_filter_workers", "Processes of its filter that can judge events.", ready)?;
    let restarts = filters().map(|(id, filter)| (vec![("builder", id)], filter.restarts));
    let help = "Processes of its filter that were started in place of one that failed.";
    families.counters("builder_filter_restarts", help, restarts)?;
    let verdicts = filters().flat_map(|(id, filter)| {
        [("kept", filter.kept), ("dropped", filter.dropped), ("failed", filter.failed)]
            .map(|(verdict, count)| (vec![("builder", id.clone()), ("verdict", verdict.to_owned())], count))
    });
    let help = "Events that the processes of its filter have judged, or failed to judge.";
    families.counters("builder_filter_events", help, verdicts)
}

#[cfg(test)]
mod tests;
