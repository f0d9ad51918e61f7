//! [`Hooks`]: the programs of `[hooks]`, which run when something happens. Each hook has a queue
//! and a thread of its own, so that no program delays another hook, a role or an event.

mod calls;
mod starts;
mod problems;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use evb::{
    file::ClosedFile,
    supervisor::{CallEnd, HookCall, LastRun, RecordNotes, RunReport},
};
use evb_config::HooksConfig;
use evb_core::{
    id::{BuilderId, Peer},
    wire::control::plain,
};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::{
    sync::{
        mpsc,
        oneshot::{self, error::TryRecvError},
        watch,
    },
    time::timeout,
};

use crate::{inputs::Ending, program::GRACE};
use calls::{Call, Caller};
pub(crate) use problems::Look;

/// Number of calls that may wait for each hook.
const WAITING: usize = 256;

/// Number of characters of a failure that the status shows.
const SHOWN: usize = 500;

/// Number of runs whose records may get notes: a program may run longer than the next run.
const RECORDS: usize = 4;

/// Something that may have a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    RunStarts,
    RunEnds,
    FileClosed,
    Problem,
}

impl Hook {
    const ALL: [Self; 4] = [Self::RunStarts, Self::RunEnds, Self::FileClosed, Self::Problem];

    /// Returns the key of the configuration.
    fn name(self) -> &'static str {
        match self {
            Self::RunStarts => "run_starts",
            Self::RunEnds => "run_ends",
            Self::FileClosed => "file_closed",
            Self::Problem => "problem",
        }
    }

    fn words(self, config: &HooksConfig) -> Option<&[String]> {
        config.programs().find_map(|(hook, words)| (hook == self.name()).then_some(words))
    }
}

/// The programs that this process calls when something happens.
#[derive(Clone, Default)]
pub(crate) struct Hooks(Arc<Calls>);

/// The calls that wait, and counts of the others.
#[derive(Default)]
struct Calls {
    config: Mutex<Arc<HooksConfig>>,
    queues: Mutex<Queues>,
    states: [State; Hook::ALL.len()],
    /// The records of the latest runs.
    records: Mutex<VecDeque<RecordNotes>>,
    ending: watch::Sender<Ending>,
}

/// The queues of the hooks that have been called.
#[derive(Default)]
struct Queues {
    open: [Option<mpsc::Sender<Call>>; Hook::ALL.len()],
    /// One for each thread, which is ready when the thread has ended.
    ends: Vec<oneshot::Receiver<()>>,
    is_closed: bool,
}

impl Queues {
    /// Lets the end of the process wait for a thread, and forgets those that have ended.
    fn join(&mut self, thread: oneshot::Receiver<()>) {
        self.ends.retain_mut(|end| matches!(end.try_recv(), Err(TryRecvError::Empty)));
        self.ends.push(thread);
    }
}

/// Counts of the calls of a hook, by what has become of them.
#[derive(Default)]
struct State {
    called: AtomicU64,
    succeeded: AtomicU64,
    failed: AtomicU64,
    dropped: AtomicU64,
    last_failure: Mutex<Option<String>>,
}

/// The calls of a hook in this process, for the status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct HookStatus {
    pub(crate) hook: &'static str,
    /// Number of calls whose program has succeeded.
    pub(crate) succeeded: u64,
    /// Number of calls whose program has failed, at each attempt.
    pub(crate) failed: u64,
    /// Number of calls that were given up before an attempt.
    pub(crate) dropped: u64,
    /// Number of calls that wait or run.
    pub(crate) pending: u64,
    /// Reason of the latest failure.
    pub(crate) last_failure: Option<String>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hooks").field(&self.status()).finish()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hooks {
    /// Takes the programs of a configuration that comes into force.
    pub(crate) fn configure(&self, config: &HooksConfig) {
        *lock(&self.0.config) = Arc::new(config.clone());
    }

    /// Notes in the record of the next run, too, what happens to it.
    pub(crate) fn note_in(&self, record: RecordNotes) {
        let mut records = lock(&self.0.records);
        records.truncate(RECORDS - 1);
        records.push_front(record);
    }

    fn records(&self) -> Vec<RecordNotes> {
        lock(&self.0.records).iter().cloned().collect()
    }

    /// Returns the present configuration, if it has a program for the hook.
    fn configured(&self, hook: Hook) -> Option<Arc<HooksConfig>> {
        let config = Arc::clone(&lock(&self.0.config));
        hook.words(&config).is_some().then_some(config)
    }

    /// Returns what has become of the calls of the hooks that have a program.
    pub(crate) fn status(&self) -> Vec<HookStatus> {
        let status = |hook: Hook| {
            let State { called, succeeded, failed, dropped, last_failure } = self.state(hook);
            let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
            let (succeeded, failed, dropped) = (count(succeeded), count(failed), count(dropped));
            // A call that ends now may be counted twice for a moment.
            let pending = count(called).saturating_sub(succeeded + failed + dropped);
            let last_failure = lock(last_failure).clone();
            HookStatus { hook: hook.name(), succeeded, failed, dropped, pending, last_failure }
        };
        Hook::ALL.into_iter().filter(|hook| self.configured(*hook).is_some()).map(status).collect()
    }

    fn state(&self, hook: Hook) -> &State {
        &self.0.states[hook as usize]
    }

    /// Calls `run_ends` for a run that has begun.
    pub(crate) fn tell_end(&self, report: &RunReport) {
        if report.begin.is_known() {
            let input = serde_json::to_value(LastRun::from(report)).unwrap_or_default();
            self.call(Hook::RunEnds, report.run, format!("run {}", report.run), input);
        }
    }

    /// Calls `file_closed` for a file of a builder with that name.
    pub(crate) fn tell_closed(&self, builder: BuilderId, name: &str, file: &ClosedFile) {
        let path = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
        let (builder, named) = (builder.number(), Peer::Builder(builder).named(name));
        let about = format!("{} of {named}", path.display());
        let input = json!({
            "run": file.run.number(),
            "run_id": file.run_id.to_string(),
            "builder": builder,
            "name": (!name.is_empty()).then_some(name),
            "path": path.to_string_lossy(),
            "size": file.size.count(),
            "events": file.events,
            "first": file.first.map(|event| event.number()),
            "last": file.last.map(|event| event.number()),
            "crc64_nvme": file.checksum.map(|checksum| format!("{:016x}", checksum.number())),
        });
        self.call(Hook::FileClosed, file.run.number(), about, input);
    }

    /// Calls a program that nobody waits for, if there is one.
    fn call(&self, hook: Hook, run: u32, about: String, mut input: Value) {
        let Some(config) = self.configured(hook) else { return };
        input["hook"] = hook.name().into();
        let call = Call { config, run, about, input };
        self.state(hook).called.fetch_add(1, Ordering::Relaxed);
        let queued =
            self.queue(hook).map_err(|error| format!("the operating system refused a thread: {error}"));
        let queued = queued.and_then(|queue| {
            let queue = queue.ok_or_else(|| "this process ends".to_owned())?;
            queue.try_send(call).map_err(|error| {
                let call = error.into_inner();
                let reason = format!(
                    "it is too slow, and {WAITING} earlier calls wait, so the call for {} was left out",
                    call.about
                );
                self.record(hook, &call, CallEnd::Dropped, &reason);
                reason
            })
        });
        if let Err(reason) = queued {
            self.drop_call(hook, &reason);
        }
    }

    /// Returns the queue of a hook, whose thread is started if need be; `None` at the end of the
    /// process.
    fn queue(&self, hook: Hook) -> io::Result<Option<mpsc::Sender<Call>>> {
        let mut queues = lock(&self.0.queues);
        let Queues { open, ends, is_closed } = &mut *queues;
        let place = &mut open[hook as usize];
        if place.is_none() && !*is_closed {
            let (queue, calls) = mpsc::channel(WAITING);
            let caller = Caller::new(hook, self.clone());
            ends.push(on_thread(hook, async move { caller.answer(calls).await })?);
            *place = Some(queue);
        }
        Ok(place.clone())
    }

    /// Counts and logs a call that was not made.
    fn drop_call(&self, hook: Hook, reason: &str) {
        self.state(hook).dropped.fetch_add(1, Ordering::Relaxed);
        self.note_failure(hook, reason);
        let name = hook.name();
        tracing::warn!(
            hook = name,
            "the program of the hook {name} was not called: {reason}; no event is affected, but do its work by hand"
        );
    }

    /// Notes in the record of a run how a call has ended.
    fn record(&self, hook: Hook, call: &Call, outcome: CallEnd, text: &str) {
        let Ok(run) = serde_json::from_value(call.input["run_id"].clone()) else { return };
        let program = hook.words(&call.config).and_then(<[_]>::first).cloned().unwrap_or_default();
        let (hook, text) = (hook.name().to_owned(), text.to_owned());
        let told = HookCall { hook, program, outcome, text, ..HookCall::default() };
        self.records().iter().any(|record| record.note_call(run, told.clone()));
    }

    fn note_failure(&self, hook: Hook, reason: &str) {
        *lock(&self.state(hook).last_failure) = Some(plain(reason, SHOWN));
    }

    /// Waits, at the end of the process, for the programs whose calls wait. When `now` is ready,
    /// they are stopped.
    pub(crate) async fn end(&self, now: impl Future<Output = ()>) {
        let ends = {
            let mut queues = lock(&self.0.queues);
            queues.is_closed = true;
            queues.open = Default::default();
            std::mem::take(&mut queues.ends)
        };
        self.0.ending.send_replace(Ending::Soon);
        let all = async {
            for end in ends {
                // An error means that the thread has ended.
                let _ = end.await;
            }
        };
        let mut all = std::pin::pin!(all);
        tokio::select! {
            () = &mut all => return,
            () = now => {}
        }
        self.0.ending.send_replace(Ending::Now);
        let _ = timeout(GRACE * 2, all).await;
    }

    /// Waits until the programs are to be stopped.
    async fn stopped(&self) {
        self.ends(Ending::Now).await;
    }

    /// Waits until the process ends in that way.
    async fn ends(&self, how: Ending) {
        let mut ending = self.0.ending.subscribe();
        if ending.wait_for(|ending| *ending >= how).await.is_err() {
            std::future::pending().await
        }
    }
}

/// Runs a future on a thread of a hook. The result is ready at its end.
fn on_thread(
    hook: Hook,
    run: impl Future<Output = ()> + Send + 'static,
) -> io::Result<oneshot::Receiver<()>> {
    let (ends, end) = oneshot::channel::<()>();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name(format!("hook {}", hook.name())).spawn(move || {
        runtime.block_on(run);
        drop(ends);
    })?;
    Ok(end)
}

/// Returns the longest time for which a run waits for `run_starts`.
pub(crate) fn longest_start(config: &HooksConfig) -> Duration {
    config.run_starts.as_ref().map_or(Duration::ZERO, |_| config.timeout + GRACE)
}
