use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use bytes::Bytes as Payload;
use evb_core::{
    alignment::DetectorClock,
    fragment::{Fragment, Timestamp},
    id::{Epoch, EventId, SourceId},
    units::Bytes,
};
use evb_file::{EventFile, ReadError, Selection, VerifyError, files_of_run};

use super::board_clock::ticks_of;
#[cfg(feature = "km3net")]
use super::km3net::{Km3netFlaw, SLICE_HEAD, Timeslices, first_length};
use crate::source::Readout;

#[cfg(test)]
mod tests;

/// Limit of the recorded data that one source keeps in memory for replay.
const LIMIT: Bytes = Bytes::mib(2048);

/// Reason for which a file cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file is missing or cannot be read.
    #[error("cannot read {}: {reason}; bring the recording back, or give the path of another", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        reason: std::io::Error,
    },
    /// The recorded data of the source do not fit into memory.
    #[error("{} holds more than {LIMIT} for one source, too much for replay to keep in memory: use a shorter file", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file does not contain KM3NeT timeslices.
    #[cfg(feature = "km3net")]
    #[error("{} cannot be replayed as KM3NeT timeslices: {flaw}; give a whole file of L1 timeslices", path.display())]
    Km3net {
        /// The file.
        path: PathBuf,
        /// The flaw in the file.
        flaw: Km3netFlaw,
    },
    /// The file has fewer modules than the position asked for.
    #[cfg(feature = "km3net")]
    #[error("{} has no module {module}; its {modules} modules are numbered from 0 to {}: choose one of them with `module`", path.display(), modules - 1)]
    NoModule {
        /// The file.
        path: PathBuf,
        /// Position of the module that was asked for.
        module: usize,
        /// Number of modules in the file.
        modules: usize,
    },
    /// An event file is missing, or damaged.
    #[error(transparent)]
    Events(#[from] ReadError),
    /// There are no event files, or they are of several runs.
    #[error(transparent)]
    Files(#[from] VerifyError),
    /// The event files hold no fragment of the source.
    #[error("{} holds no fragment of source {source_id}; give another recording, or as `module` the id of a source that `evbd dump` lists for it", path.display())]
    NoFragments {
        /// The file or directory.
        path: PathBuf,
        /// The source.
        source_id: SourceId,
    },
}

/// Plays one source's recorded fragments, one for each event, over and over.
///
/// ```
/// use evb::{file::Selection, input::Replay, prelude::*};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let (dir, options) = (dir.path(), evb::file::WriterOptions::default());
/// # let run = LocalSystem::new(1, 1).events(1).start(|_| FileSink::new(dir, options)).await?;
/// # run.sources()[0].push(Fragment::new(EventId::FIRST, Timestamp::new(0), "data")).await?;
/// # run.finished().await?;
/// // The event files in `dir` hold a single event, which is played again and again.
/// let replay = Replay::recorded(dir, SourceId::new(1), &Selection::default())?;
/// assert_eq!((replay.len(), replay.largest()), (1, Bytes::new(4)));
/// let system = LocalSystem::new(1, 1).events(10);
/// let run = system.start_on_demand(|_| replay.clone(), |_| NullSink).await?;
/// assert_eq!(run.finished().await?.events.complete, 10);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Replay {
    /// A fragment for each event; `None` if the source missed the event when it was recorded:
    /// replay misses it again.
    fragments: Vec<Option<Fragment>>,
    /// Ticks that are added in each further pass.
    pass: u128,
    /// Number of different timestamps.
    wrap: u128,
}

/// Returns a fragment of a recording; its event is that of the replay.
fn recorded(timestamp: Timestamp, payload: &[u8]) -> Fragment {
    // The copy allows the memory of the whole file to be freed.
    Fragment::new(EventId::default(), timestamp, Payload::copy_from_slice(payload))
}

impl Replay {
    /// Plays these fragments, with the same timestamps in each pass.
    fn of(fragments: Vec<Option<Fragment>>) -> Self {
        Self { fragments, pass: 0, wrap: 1 << 64 }
    }

    /// Lets the clock of the timestamps run on: in each further pass, the timestamps are later by
    /// the length of a pass, which is the last timestamp minus the first plus the mean interval,
    /// modulo the wrap. The sources of a replay agree on this length if none of them missed the
    /// first or the last recorded event (else mean intervals stand for their times), and if no two
    /// successive events are half a wrap or more apart.
    ///
    /// ```
    /// use evb::{
    ///     file::Selection,
    ///     input::Replay,
    ///     prelude::*,
    ///     source::{ClockWrap, DetectorClock},
    /// };
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let (dir, options) = (dir.path(), evb::file::WriterOptions::default());
    /// # let run = LocalSystem::new(1, 1).events(2).start(|_| FileSink::new(dir, options)).await?;
    /// # for (event, ticks) in [(1, 100), (2, 350)] {
    /// #     let (event, time) = (EventId::new(event), Timestamp::new(ticks));
    /// #     run.sources()[0].push(Fragment::new(event, time, "data")).await?;
    /// # }
    /// # run.finished().await?;
    /// // The event files in `dir` hold two events, at 100 and 350 ticks.
    /// let clock = DetectorClock::new("1 MHz".parse()?, ClockWrap::Bits(10));
    /// let recorded = Replay::recorded(dir, SourceId::new(1), &Selection::default())?;
    /// let mut replay = recorded.with_clock(&clock);
    /// let mut time = |event| Some(replay.fragment(EventId::new(event))?.timestamp.ticks());
    /// assert_eq!((time(1), time(2)), (Some(100), Some(350)));
    /// assert_eq!((time(3), time(4)), (Some(600), Some(850)));
    /// assert_eq!(time(5), Some(1100 - 1024));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_clock(self, clock: &DetectorClock) -> Self {
        let wrap = ticks_of(clock.wrap);
        let pass = length_of_pass(&self.fragments, wrap as i128);
        Self { pass: pass.rem_euclid(wrap as i128) as u128, wrap, ..self }
    }

    /// Plays one optical module of a file of KM3NeT timeslices: event *n* has the module's frame of
    /// timeslice (*n* − 1) modulo the number of timeslices, and the UTC time of that timeslice in
    /// ticks of 16 ns. `module` is the module's position in the file, from 0. If a timeslice has no
    /// frame of the module, the fragment is empty.
    ///
    /// # Errors
    /// [`ReplayError`]: the file does not hold KM3NeT timeslices, or it has no such module.
    #[cfg(feature = "km3net")]
    pub fn km3net(path: &Path, module: usize) -> Result<Self, ReplayError> {
        use std::{fs, io::Read as _};

        let unreadable = |reason| ReplayError::Unreadable { path: path.to_owned(), reason };
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(unreadable)?;
        file.take(LIMIT.count() + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        if bytes.len() as u64 > LIMIT.count() {
            return Err(ReplayError::TooLarge { path: path.to_owned() });
        }
        let slices =
            Timeslices::parse(&bytes).map_err(|flaw| ReplayError::Km3net { path: path.to_owned(), flaw })?;
        let modules = slices.modules().len();
        if module >= modules {
            return Err(ReplayError::NoModule { path: path.to_owned(), module, modules });
        }
        let recorded = slices.frames(module).map(|(timestamp, frame)| Some(recorded(timestamp, frame)));
        Ok(Self::of(recorded.collect()))
    }

    /// Checks that a file begins with a whole KM3NeT timeslice, without reading further.
    ///
    /// # Errors
    /// [`ReplayError`]: the file does not begin with a KM3NeT timeslice.
    #[cfg(feature = "km3net")]
    pub fn check_km3net(path: &Path) -> Result<(), ReplayError> {
        use std::{fs, io::Read as _};

        let unreadable = |reason| ReplayError::Unreadable { path: path.to_owned(), reason };
        let file = fs::File::open(path).map_err(unreadable)?;
        let mut bytes = Vec::new();
        (&file).take(SLICE_HEAD as u64).read_to_end(&mut bytes).map_err(unreadable)?;
        // If the length is wrong, the flaw names the length of the file.
        let length = first_length(&bytes).map_or(LIMIT.count(), |length| length as u64);
        let rest = length.saturating_sub(bytes.len() as u64);
        (&file).take(rest).read_to_end(&mut bytes).map_err(unreadable)?;
        let slices = Timeslices::parse(&bytes);
        slices.map(drop).map_err(|flaw| ReplayError::Km3net { path: path.to_owned(), flaw })
    }

    /// Checks that there are event files of one run, and reads their headers, but no event.
    ///
    /// # Errors
    /// [`ReplayError`]: there are no event files, they are of several runs, or a header is damaged.
    pub fn check_recorded(path: &Path, selection: &Selection) -> Result<(), ReplayError> {
        recorded_files(path, selection)?.try_for_each(|file| file.map(drop))
    }

    /// Plays one source of event files; `path` is a file or a directory. The files of a directory
    /// that match the selection must belong to one run. The recorded events are played in the order
    /// of their ids, and are numbered from 1.
    ///
    /// # Errors
    /// [`ReplayError`]: there are no event files, they are of several runs, they are damaged, or
    /// they hold no fragment of that source.
    pub fn recorded(path: &Path, source: SourceId, selection: &Selection) -> Result<Self, ReplayError> {
        let mut events: BTreeMap<EventId, (Epoch, Option<Fragment>)> = BTreeMap::new();
        let mut held = Bytes::ZERO;
        for file in recorded_files(path, selection)? {
            let file = file?;
            for event in file.events() {
                let event = event?;
                if !selection.takes(event.epoch) {
                    continue;
                }
                if events.get(&event.id).is_some_and(|(epoch, _)| *epoch >= event.epoch) {
                    continue;
                }
                let recorded = event.fragment(source);
                held += Bytes::new(recorded.map_or(0, |fragment| fragment.payload.len() as u64));
                if held > LIMIT {
                    return Err(ReplayError::TooLarge { path: path.to_owned() });
                }
                let recorded = recorded.map(|found| Fragment {
                    lost_packets: found.lost_packets,
                    ..self::recorded(found.timestamp, found.payload)
                });
                events.insert(event.id, (event.epoch, recorded));
            }
        }
        let fragments: Vec<_> = events.into_values().map(|(_, recorded)| recorded).collect();
        if fragments.iter().all(Option::is_none) {
            return Err(ReplayError::NoFragments { path: path.to_owned(), source_id: source });
        }
        Ok(Self::of(fragments))
    }

    /// Returns the number of recorded events, after which replay begins again; at least one.
    #[allow(clippy::len_without_is_empty)] // a replay is never empty
    pub fn len(&self) -> usize {
        self.fragments.len()
    }

    /// Returns the size of the largest recorded fragment; the source's `max_fragment` must not be
    /// smaller.
    pub fn largest(&self) -> Bytes {
        let sizes = self.fragments.iter().flatten().map(|recorded| recorded.payload.len());
        Bytes::new(sizes.max().unwrap_or(0) as u64)
    }
}

/// Opens the event files at a path, of which the selection must leave those of one run.
fn recorded_files(
    path: &Path,
    selection: &Selection,
) -> Result<impl Iterator<Item = Result<EventFile, ReplayError>>, ReplayError> {
    let files = files_of_run(&[path.to_owned()], selection)?;
    Ok(files.into_iter().map(|file| Ok(EventFile::open(file)?)))
}

/// Returns the time in ticks from the begin of a pass to that of the next.
fn length_of_pass(fragments: &[Option<Fragment>], wrap: i128) -> i128 {
    let times = fragments.iter().enumerate();
    let times = times.filter_map(|(place, recorded)| Some((place, recorded.as_ref()?.timestamp.ticks())));
    let times: Vec<(usize, u64)> = times.collect();
    let interval = |[(_, one), (_, next)]: &[(usize, u64); 2]| {
        let later = (i128::from(*next) - i128::from(*one)).rem_euclid(wrap);
        // Clocks have jitter, so that a simultaneous event may seem earlier.
        if later > wrap / 2 { later - wrap } else { later }
    };
    let span: i128 = times.array_windows().map(interval).sum();
    // From the last fragment of a pass to the first of the next is taken as one more interval.
    let intervals = match (times.first(), times.last()) {
        (Some((first, _)), Some((last, _))) => (last - first) as i128,
        _ => 0,
    };
    if intervals == 0 { 0 } else { (span * fragments.len() as i128 + intervals / 2) / intervals }
}

impl Readout for Replay {
    /// Returns the recorded fragment of an event. Each pass over the record continues the clock of
    /// the pass before.
    fn fragment(&mut self, event: EventId) -> Option<Fragment> {
        let (number, events) = (event.number().checked_sub(1)?, self.fragments.len() as u64);
        let mut fragment = self.fragments[(number % events) as usize].clone()?;
        let ticks = u128::from(fragment.timestamp.ticks()) + u128::from(number / events) * self.pass;
        fragment.timestamp = Timestamp::new((ticks % self.wrap) as u64);
        fragment.event = event;
        Some(fragment)
    }
}
