//! `evbd verify --align`: whether the fragments of an event belong together, by their timestamps.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use evb_config::{Config, SourceEntry};
use evb_core::{
    alignment::{Agreement, DetectorClock, Episode, StreamGuard},
    event::Event,
    id::{BuilderId, Peer, SourceId},
    index::ClockIndex,
    quantities::counted,
    time::Instant,
};
use evb_file::{Merge, MergeError, Selection};
use serde::Serialize;

/// The reason why timestamps were not compared.
#[derive(Debug, thiserror::Error)]
pub(super) enum AlignError {
    /// The configuration cannot be used.
    #[error("{0}")]
    Config(String),
    /// Fewer than two sources have a clock.
    #[error("{} gives {} a `clock`, and a comparison needs two: add for example clock = {{ rate = \"125 MHz\", bits = 48 }} to each `[[source]]`", file.display(), counted(*clocks, "source"))]
    TooFewClocks {
        /// The configuration.
        file: PathBuf,
        /// Number of sources with a clock.
        clocks: usize,
    },
    /// The files cannot be read, or are of several runs.
    #[error(transparent)]
    Files(#[from] MergeError),
}

/// Result of the comparison of a run's timestamps.
#[derive(Debug, Serialize)]
pub(super) struct AlignReport {
    run: u32,
    /// Events that were compared.
    events: u64,
    /// Events with a fragment whose timestamp is not that of the event.
    disagreeing: u64,
    sources: Vec<SourceReport>,
    /// Sources of the run that have no clock in the configuration.
    unchecked: Vec<u16>,
    episodes: Vec<Episode>,
    /// Number of further episodes.
    further: u64,
}

#[derive(Debug, Serialize)]
struct SourceReport {
    source: u16,
    name: String,
    agree: u64,
    disagree: u64,
    unknown: u64,
}

impl AlignReport {
    /// Returns true if no fragment is known to be in a wrong event.
    pub(super) fn is_aligned(&self) -> bool {
        self.further == 0 && self.episodes.iter().all(|episode| !episode.misaligned)
    }

    /// Returns what happened to sources.
    pub(super) fn into_episodes(self) -> Vec<Episode> {
        self.episodes
    }
}

/// Compares the timestamps of all events of the selected run, with the clocks of the configuration.
pub(super) fn align(
    paths: &[PathBuf],
    selection: &Selection,
    file: &Path,
) -> Result<AlignReport, AlignError> {
    let loaded = evb_config::load(file).map_err(|error| AlignError::Config(error.to_string()))?;
    let clocks = Clocks::of(&loaded.config);
    if clocks.all.len() < 2 {
        return Err(AlignError::TooFewClocks { file: file.to_owned(), clocks: clocks.all.len() });
    }
    let mut merge = Merge::open(paths, selection)?;
    let (run, sources) = (merge.identity().run, &merge.identity().sources);
    let unchecked = sources.iter().filter(|id| !clocks.by_source.contains_key(id));
    let unchecked = unchecked.map(|id| id.number()).collect();
    let (mut watch, mut readings) = (StreamGuard::new(&clocks.all), vec![None; clocks.all.len()]);
    // The events of format 1 have the time on the clock of their builder only.
    let mut scales: BTreeMap<Option<BuilderId>, usize> = BTreeMap::new();
    while let Some(event) = merge.next_event()? {
        clocks.read(&event, &mut readings);
        let (by, host) = match event.utc.is_known() {
            true => (None, Instant::from_nanos(event.utc.as_nanos())),
            false => (Some(event.builder), event.triggered),
        };
        let next = scales.len();
        watch.observe(*scales.entry(by).or_insert(next), event.id, host, &readings);
    }
    let watched = watch.finish();
    let mut episodes = Vec::new();
    for found in &watched.findings {
        let source = clocks.entries[found.clock.get()].id;
        Episode::note(&mut episodes, Episode::of(found, source, |clock| clocks.named(clock)));
    }
    Ok(AlignReport {
        run: run.number(),
        events: watched.events,
        disagreeing: watched.disagreeing,
        sources: clocks
            .entries
            .iter()
            .zip(watched.clocks)
            .map(|(entry, counts)| SourceReport::of(entry, counts))
            .collect(),
        unchecked,
        episodes,
        further: watched.further,
    })
}

/// The clocks of the configuration, and their sources.
struct Clocks<'a> {
    all: Vec<DetectorClock>,
    entries: Vec<&'a SourceEntry>,
    by_source: BTreeMap<SourceId, ClockIndex>,
}

impl<'a> Clocks<'a> {
    /// Takes the sources with a clock from the configuration.
    fn of(config: &'a Config) -> Self {
        let with_clock = || config.sources.iter().filter(|entry| entry.clock.is_some());
        Self {
            all: with_clock().filter_map(|entry| entry.clock).collect(),
            entries: with_clock().collect(),
            by_source: with_clock()
                .zip(0..)
                .map(|(entry, index)| (entry.id, ClockIndex::new(index)))
                .collect(),
        }
    }

    fn named(&self, clock: ClockIndex) -> String {
        let entry = self.entries[clock.get()];
        Peer::Source(entry.id).named(entry.name.as_deref().unwrap_or_default())
    }

    /// Writes the readings of an event's fragments, one for each clock.
    fn read(&self, event: &Event, readings: &mut [Option<u64>]) {
        readings.fill(None);
        for fragment in event.fragments() {
            if let Some(clock) = self.by_source.get(&fragment.source) {
                readings[clock.get()] = Some(fragment.timestamp.ticks());
            }
        }
    }
}

impl SourceReport {
    /// Returns the row of a source.
    fn of(entry: &SourceEntry, fragments: Agreement) -> Self {
        let Agreement { agree, disagree, unknown } = fragments;
        Self {
            source: entry.id.number(),
            name: entry.name.clone().unwrap_or_default(),
            agree,
            disagree,
            unknown,
        }
    }
}

impl fmt::Display for AlignReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, events, disagreeing, .. } = self;
        let verdict = match (self.is_aligned(), *disagreeing) {
            (true, 0) => "no misaligned event was found",
            (true, _) => "no source stays misaligned, so the files need no repair",
            (false, _) => "MISALIGNED",
        };
        writeln!(
            f,
            "alignment of run {run}: {verdict}; {disagreeing} of {} have a fragment whose timestamp disagrees with the others",
            counted(*events, "event")
        )?;
        for SourceReport { source, name, agree, disagree, unknown } in &self.sources {
            let named = Peer::Source(SourceId::new(*source)).named(name);
            writeln!(f, "  {named:<32} {agree} agree, {disagree} disagree, {unknown} not known")?;
        }
        if self.sources.iter().any(|source| source.unknown > 0) {
            writeln!(
                f,
                "  not known: fragments from before their clock was learnt, or alone in their event; nothing needs to be done"
            )?;
        }
        if !self.unchecked.is_empty() {
            let ids: Vec<_> = self.unchecked.iter().map(ToString::to_string).collect();
            writeln!(
                f,
                "  without a clock, not compared: {} {} (to compare, give each a `clock` in its `[[source]]`)",
                if ids.len() == 1 { "source" } else { "sources" },
                ids.join(", ")
            )?;
        }
        for Episode { source, since, text, disputed, .. } in &self.episodes {
            let mut reports = self.sources.iter();
            let name = reports.find(|report| report.source == source.number()).map(|report| &report.name);
            let named = Peer::Source(*source).named(name.map_or("", |name| name));
            let or = if *disputed {
                " (or the other sources did the contrary: only a third source with a `clock` could tell)"
            } else {
                ""
            };
            writeln!(f, "  since event {since}: {named} {text}{or}")?;
        }
        if self.further > 0 {
            writeln!(
                f,
                "  and {}, not listed here: deal with those above first, then compare again",
                counted(self.further, "further finding")
            )?;
        }
        if !self.is_aligned() {
            writeln!(
                f,
                "  the files are intact; `evbd merge --realign --align CONFIG` moves the fragments of sources that missed a trigger or had one twice to their events"
            )?;
        }
        Ok(())
    }
}
