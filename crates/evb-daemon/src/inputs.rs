//! Starts sources with the inputs that `source.input` configures.

mod boundary;
mod datagrams;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    path::PathBuf,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use evb::{
    file::Selection,
    input::{
        self, BoardDatagrams, BoardStream, Capture, CaptureError, CaptureReplay, Datagrams, Decoders,
        Framing, FrontEndListener, Generator, Replay, ReplayError, ReplaySpeed, push_at_triggers,
    },
    role::RoleError,
    source::{BeforeStart, FrontEnds, Readout, Source, SourceConfig},
    trigger_feed::TriggerListener,
};
use evb_config::{
    BoardPlace, ContentCheck, FragmentSize, Input, MadeOn, PlantedFault, ReplayFormat, SourceEntry,
};
use evb_core::{framing::FrameLayout, id::SourceId, units::Bytes};
use evb_net::resolve::{ResolveError, resolve};
use tokio::{
    sync::{oneshot, watch},
    time::timeout,
};

use crate::program::GRACE;
use boundary::Boundary;
pub(crate) use boundary::Ending;

/// The reason why a source could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InputError {
    /// The source could not join the run.
    #[error(transparent)]
    Role(#[from] RoleError),
    /// The file cannot be replayed.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The recording has a fragment that is larger than the source's `max_fragment`.
    #[error(
        "the largest fragment of the recording {} has {largest}, more than `max_fragment` = {limit} of this source, which cannot take part; raise `max_fragment`",
        path.display()
    )]
    Oversize {
        /// The recording.
        path: PathBuf,
        /// Size of the largest fragment.
        largest: Bytes,
        /// The source's `max_fragment`.
        limit: Bytes,
    },
    /// The capture cannot be replayed.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// The declared layout of frames cannot be.
    #[error(
        "frames cannot have the layout that `frame` declares: {0}; correct `frame` of this source's input"
    )]
    Layout(#[from] input::LayoutError),
    /// The address where front ends should connect cannot be resolved.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The source cannot listen for front ends at the configured address.
    #[error("cannot listen for front ends at {address}: {reason}; {remedy}")]
    Listen {
        /// Address or path.
        address: String,
        /// Error of the operating system.
        reason: io::Error,
        /// Advice for the operator.
        remedy: &'static str,
    },
    /// The trigger's multicast group cannot be joined.
    #[error(
        "cannot join the multicast group {group} of the triggers: {reason}; check `trigger_group` and `interface` of this source's input, and that the interface is up"
    )]
    Multicast {
        /// Group and port.
        group: SocketAddr,
        /// Error of the operating system.
        reason: io::Error,
    },
    /// The operating system refused a thread or a runtime.
    #[error(
        "the operating system refused this source a thread or an open file: {0}; raise the limits of this process, which `ulimit -a` shows"
    )]
    System(#[from] io::Error),
}

/// Longest time for which the next input of a source waits for the end of the last one.
const LAST_ENDS: Duration = Duration::from_secs(5);

/// The inputs of this process's sources in the last run. The input of the next run may listen at
/// the same address, so it opens only after the last one has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    last: Mutex<HashMap<SourceId, watch::Receiver<()>>>,
    /// The inputs that have something to do after a run, until they have done it.
    attended: Mutex<Vec<watch::Receiver<()>>>,
    ending: watch::Sender<Ending>,
}

impl Inputs {
    /// Starts a source with the configured input. The task that feeds the source ends with the run.
    /// `before_start` is the usual treatment of fragments from before the start.
    pub(crate) async fn start_source(
        &self,
        entry: &SourceEntry,
        seed: u64,
        before_start: BeforeStart,
        config: SourceConfig,
    ) -> Result<Source, InputError> {
        let boundary = Boundary::new(entry, self.0.ending.subscribe());
        // What boards sent before they were reset or told is not of the run.
        let before_start = if entry.hooks.on_start.is_some() { BeforeStart::Discard } else { before_start };
        match &entry.input {
            Input::Generator { size, on, fault, .. } => {
                let generator = generator(entry, *size, *fault, seed);
                self.start_readout(config, boundary, generator, on).await
            }
            Input::Replay { path, format, on } => {
                let replay = replay(path.clone(), format.clone(), entry.max_fragment).await?;
                let replay = match &entry.clock {
                    Some(clock) => replay.with_clock(clock),
                    None => replay,
                };
                self.start_readout(config, boundary, replay, on).await
            }
            Input::Tcp { listen, before_start: own, front_ends, .. } => {
                let (address, limit) = (listen.to_string(), entry.max_fragment);
                let (addresses, decoders) = (resolve(&address).await?, decoders(entry)?);
                let open = async move || {
                    let listener = FrontEndListener::tcp(&addresses, limit).await;
                    let remedy = "give a free address of this host, or stop the program that uses this one";
                    let listener =
                        listener.map_err(|reason| InputError::Listen { address, reason, remedy })?;
                    Ok(with_decoders(listener, decoders))
                };
                let front_ends = FrontEnds::new(own.unwrap_or(before_start), *front_ends);
                self.start_listening(config, boundary, front_ends, open).await
            }
            Input::Unix { path, before_start: own, front_ends, .. } => {
                let (path, limit, decoders) = (path.clone(), entry.max_fragment, decoders(entry)?);
                let open = async move || {
                    let address = path.display().to_string();
                    let listener = FrontEndListener::unix(path, limit);
                    let remedy = "give a free path in a directory that this user can write to, or stop the program that uses this one";
                    let listener =
                        listener.map_err(|reason| InputError::Listen { address, reason, remedy })?;
                    Ok(with_decoders(listener, decoders))
                };
                let front_ends = FrontEnds::new(own.unwrap_or(before_start), *front_ends);
                self.start_listening(config, boundary, front_ends, open).await
            }
            Input::Capture { paths, speed, filter, on_loss, frame } => {
                let paths = paths.iter().cloned();
                let capture = Capture::open(paths, *filter, frame, entry.max_fragment, *on_loss)?;
                self.start_capture(config, boundary, capture, *speed).await
            }
            Input::Board { place, before_start: own, frame } => {
                let before_start = own.unwrap_or(before_start);
                self.start_board(config, boundary, place, before_start, frame, entry.max_fragment).await
            }
        }
    }

    /// Starts a source with a board.
    async fn start_board(
        &self,
        config: SourceConfig,
        boundary: Boundary,
        place: &BoardPlace,
        before_start: BeforeStart,
        frame: &FrameLayout,
        limit: Bytes,
    ) -> Result<Source, InputError> {
        // Datagrams come without a connection.
        let expected = if matches!(place, BoardPlace::Udp(_)) { 0 } else { 1 };
        let front_ends = FrontEnds::new(before_start, expected);
        let config = SourceConfig { front_ends: Some(front_ends.clone()), ..config };
        let decoders = || Ok::<_, InputError>(Framing::new(frame.clone(), limit)?.decoders());
        let board = match place {
            BoardPlace::Udp(place) => {
                let decoder = Datagrams::new(frame.clone(), limit, place.on_loss)?;
                let (listening, host) = datagrams::listening(place).await?;
                let open = async move || datagrams::open(&listening, host, decoder, front_ends);
                return self.start_fed(config, boundary, open, BoardDatagrams::serve).await;
            }
            BoardPlace::Tcp(address) => BoardStream::tcp(address.to_string(), decoders()?),
            BoardPlace::Path(path) => BoardStream::path(path, decoders()?),
        };
        let board = board.with_front_ends(front_ends);
        let boundary = boundary.with_writer(board.writer());
        self.start_fed(config, boundary, async move || Ok(board), BoardStream::serve).await
    }

    /// Starts a source that replays a capture. Nothing comes before the run, so all is kept.
    async fn start_capture(
        &self,
        config: SourceConfig,
        boundary: Boundary,
        capture: Capture,
        speed: ReplaySpeed,
    ) -> Result<Source, InputError> {
        let front_ends = FrontEnds::new(BeforeStart::Keep, 1);
        let replay = CaptureReplay::new(capture, speed, front_ends.clone());
        let config = SourceConfig { front_ends: Some(front_ends), ..config };
        self.start_fed(config, boundary, async move || Ok(replay), CaptureReplay::serve).await
    }

    /// Starts a source with front ends.
    async fn start_listening(
        &self,
        config: SourceConfig,
        boundary: Boundary,
        front_ends: FrontEnds,
        open: impl AsyncFnOnce() -> Result<FrontEndListener, InputError> + Send + 'static,
    ) -> Result<Source, InputError> {
        let config = SourceConfig { front_ends: Some(front_ends.clone()), ..config };
        let open = async move || Ok(open().await?.with_front_ends(front_ends));
        self.start_fed(config, boundary, open, FrontEndListener::serve).await
    }

    /// Starts a source with a readout, which is asked on demand, or reads at the triggers of a
    /// multicast group.
    async fn start_readout(
        &self,
        config: SourceConfig,
        boundary: Boundary,
        readout: impl Readout,
        on: &MadeOn,
    ) -> Result<Source, InputError> {
        let MadeOn::Multicast(group) = on else {
            return Ok(Source::on_demand(config, readout).await?);
        };
        let (group, interface) = (group.group, group.interface.clone());
        let open = async move || {
            TriggerListener::join(group, interface.as_deref())
                .map_err(|reason| InputError::Multicast { group, reason })
        };
        let feed = async move |triggers, source| push_at_triggers(triggers, readout, source).await;
        self.start_fed(config, boundary, open, feed).await
    }

    /// Starts a source whose input is read on a thread of its own, so that the input delays no
    /// other role. The input is opened before the source joins, so that no fragment is missed, and
    /// ends with the run.
    async fn start_fed<T>(
        &self,
        config: SourceConfig,
        mut boundary: Boundary,
        open: impl AsyncFnOnce() -> Result<T, InputError> + Send + 'static,
        feed: impl AsyncFnOnce(T, Source) + Send + 'static,
    ) -> Result<Source, InputError> {
        let (opened, has_opened) = oneshot::channel();
        let (joined, has_joined) = oneshot::channel::<Source>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        boundary.attend(config.front_ends.as_ref());
        let ends = self.succeed(config.id, boundary.longest_stop()).await;
        let fed = async move || match open().await {
            Err(error) => drop(opened.send(Err(error))),
            Ok(input) => {
                drop(opened.send(Ok(())));
                // An error means that the source could not join the run.
                if let Ok(source) = has_joined.await {
                    boundary.around(source.clone(), feed(input, source)).await;
                }
            }
        };
        let thread = thread::Builder::new().name(format!("input {}", config.id));
        let span = tracing::Span::current();
        thread.spawn(move || {
            let _source = span.entered();
            runtime.block_on(fed());
            // The tasks of the input hold its connections.
            drop(runtime);
            drop(ends);
        })?;
        has_opened.await.map_err(io::Error::other)??;
        let source = Source::connect(config).await?;
        drop(joined.send(source.clone()));
        Ok(source)
    }

    /// Waits for the end of the source's last input. The next one ends when the result is dropped;
    /// `stop` is the time that it may need after a run, if it does something then.
    async fn succeed(&self, source: SourceId, stop: Option<Duration>) -> watch::Sender<()> {
        let (ends, has_ended) = watch::channel(());
        if stop.is_some() {
            let mut attended = self.0.attended.lock().unwrap_or_else(PoisonError::into_inner);
            attended.retain(|input| input.has_changed().is_ok());
            attended.push(has_ended.clone());
        }
        let last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner).insert(source, has_ended);
        if let Some(mut last) = last {
            // Nothing is ever sent: `changed` returns when the sender is dropped.
            let _ = timeout(LAST_ENDS + stop.unwrap_or_default(), last.changed()).await;
        }
        ends
    }

    /// Waits, at the end of the process, until all is done that must follow a run. When `now` is
    /// ready, the programs that still run are stopped.
    pub(crate) async fn end(&self, now: impl Future<Output = ()>) {
        self.0.ending.send_replace(Ending::Soon);
        let attended = std::mem::take(&mut *self.0.attended.lock().unwrap_or_else(PoisonError::into_inner));
        let all = async {
            for mut input in attended {
                // Nothing is ever sent: `changed` returns when the sender is dropped.
                let _ = input.changed().await;
            }
        };
        let mut all = pin!(all);
        tokio::select! {
            () = &mut all => return,
            () = now => {}
        }
        self.0.ending.send_replace(Ending::Now);
        let _ = timeout(GRACE * 2, all).await;
    }
}

/// Returns what decodes the frames of a source's boards; `None` if front ends speak evb's protocol.
fn decoders(entry: &SourceEntry) -> Result<Option<Decoders>, InputError> {
    let Some(frame) = entry.input.frame() else { return Ok(None) };
    Ok(Some(Framing::new(frame.clone(), entry.max_fragment)?.decoders()))
}

fn with_decoders(listener: FrontEndListener, decoders: Option<Decoders>) -> FrontEndListener {
    match decoders {
        Some(decoders) => listener.with_decoders(decoders),
        None => listener,
    }
}

/// Returns the generator of a source, with its clock and its planted fault.
fn generator(entry: &SourceEntry, size: FragmentSize, fault: Option<PlantedFault>, seed: u64) -> Generator {
    let mut generator = Generator::new(entry.id, sizes(size), entry.max_fragment, seed);
    if let Some(clock) = &entry.clock {
        generator = generator.with_clock(clock);
    }
    if let Some(PlantedFault { slip, at }) = fault {
        generator = generator.with_slip(slip, at);
    }
    generator
}

/// Reads a recording on a thread for blocking work, so that other tasks of this thread can go on.
async fn replay(path: PathBuf, format: ReplayFormat, limit: Bytes) -> Result<Replay, InputError> {
    let recording = path.clone();
    let load = move || match format {
        ReplayFormat::Km3net { module } => Replay::km3net(&path, module as usize),
        ReplayFormat::Evb { source, run } => {
            Replay::recorded(&path, source, &Selection { run, ..Selection::default() })
        }
    };
    let replay = tokio::task::spawn_blocking(load).await.map_err(io::Error::from)??;
    let largest = replay.largest();
    if largest > limit {
        return Err(InputError::Oversize { path: recording, largest, limit });
    }
    Ok(replay)
}

/// Returns the sizes of generated fragments.
fn sizes(configured: FragmentSize) -> input::FragmentSize {
    match configured {
        FragmentSize::Fixed(size) => input::FragmentSize::Fixed(size),
        FragmentSize::Gaussian { mean, sigma } => input::FragmentSize::Gaussian { mean, sigma },
        FragmentSize::LogNormal { mean, sigma } => input::FragmentSize::LogNormal { mean, sigma },
    }
}

/// Returns the sources with generated content, which builders can check. A planted fault gives
/// events the content of others, and the check would keep these events from the sink.
pub(crate) fn generated(sources: &[SourceEntry]) -> Vec<(SourceId, input::ContentCheck)> {
    let check = |entry: &SourceEntry| match &entry.input {
        Input::Generator { fault: Some(_), .. } => None,
        Input::Generator { check: ContentCheck::Stamp, .. } => Some((entry.id, input::ContentCheck::Stamp)),
        Input::Generator { check: ContentCheck::Full, .. } => Some((entry.id, input::ContentCheck::Full)),
        _ => None,
    };
    sources.iter().filter_map(check).collect()
}
