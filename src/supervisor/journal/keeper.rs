//! [`Keeper`]: runs the journal on a thread of its own, so that a disk that hangs delays only
//! messages that depend on the journal.

use std::{
    fmt::Debug,
    io,
    path::{Path, PathBuf},
    sync::mpsc as jobs,
    task::{Context, Poll, ready},
    thread::JoinHandle,
    time::Duration,
};

use evb_core::{
    supervisor::{JOURNAL_RETRY, JOURNAL_STALL, SupervisorRole},
    time::{Instant, earlier},
    wire::journal::Entry,
};
use tokio::sync::mpsc;

use super::Journal;

/// Time after which a write that is not finished is logged.
const HANG: Duration = Duration::from_secs(1);

/// Time for which the end of a run waits for the journal's last write.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// Number of milliseconds for which `drop` waits for the journal's last write.
const LAST_LOOKS: u32 = 100;

/// A store of entries: the journal's file, or a substitute in a test.
pub(crate) trait Store: Debug + Send {
    fn path(&self) -> &Path;
    fn append(&mut self, entry: &Entry);
    fn commit(&mut self) -> io::Result<()>;
    fn is_long(&self) -> bool;
    fn replace(&mut self, entries: &[Entry]) -> io::Result<()>;
    fn abandon(self: Box<Self>) -> io::Result<()>;
}

impl Store for Journal {
    fn path(&self) -> &Path {
        self.path()
    }

    fn append(&mut self, entry: &Entry) {
        self.append(entry);
    }

    fn commit(&mut self) -> io::Result<()> {
        self.commit()
    }

    fn is_long(&self) -> bool {
        self.is_long()
    }

    fn replace(&mut self, entries: &[Entry]) -> io::Result<()> {
        self.replace(entries)
    }

    fn abandon(self: Box<Self>) -> io::Result<()> {
        (*self).abandon()
    }
}

/// A job for the journal's thread, which takes one job at a time.
enum Job {
    Write { entries: Vec<Entry>, up_to: u64, instead: Option<Vec<Entry>> },
    Abandon,
}

/// The result of a job.
#[derive(Debug)]
pub(crate) enum Done {
    /// The first `up_to` entries of the run are written.
    Written { up_to: u64, is_long: bool },
    /// The write failed, and will be tried again.
    Failed(io::Error),
    /// The file is removed, or could not be removed.
    Abandoned(io::Result<()>),
}

/// The journal as the driver uses it: a queue of entries and the thread that writes them.
#[derive(Debug)]
pub(crate) struct Keeper {
    path: PathBuf,
    jobs: Option<jobs::SyncSender<Job>>,
    done: mpsc::Receiver<Done>,
    thread: Option<JoinHandle<()>>,
    is_at_work: bool,
    /// Entries that are not given to the thread yet, because it is still writing earlier ones.
    pending: Vec<Entry>,
    added: u64,
    written: u64,
    /// Time since which no entry was written although entries wait.
    waiting: Option<Instant>,
    stalled: bool,
    told: bool,
    retry: Option<Instant>,
    is_long: bool,
}

impl Keeper {
    /// Tells the state machine the results of the journal's writes, if a journal is kept. Returns
    /// true if there was a result. A journal that was given up is no longer kept.
    pub(crate) fn feed(
        journal: &mut Option<Self>,
        cx: &mut Context<'_>,
        role: &mut SupervisorRole,
        now: Instant,
    ) -> bool {
        let mut any = false;
        while let Some(Poll::Ready(done)) = journal.as_mut().map(|journal| journal.poll(cx, now)) {
            match done {
                Done::Written { .. } => role.handle_journal_written(),
                Done::Failed(error) => role.handle_journal_failure(error.to_string(), now),
                Done::Abandoned(removed) => {
                    *journal = None;
                    role.handle_journal_abandoned(removed.map_err(|error| error.to_string()));
                }
            }
            any = true;
        }
        any
    }

    /// Starts the journal's thread.
    pub(crate) fn new(store: Box<dyn Store>) -> io::Result<Self> {
        let path = store.path().to_owned();
        let (jobs, to_do) = jobs::sync_channel(1);
        let (say, done) = mpsc::channel(1);
        let thread = crate::threads::start("journal", move || {
            work(store, &to_do, &say);
            // The file is closed by now: another journal may open it when this channel ends.
            drop(say);
        })?;
        Ok(Self {
            path,
            jobs: Some(jobs),
            done,
            thread: Some(thread),
            is_at_work: false,
            pending: Vec::new(),
            added: 0,
            written: 0,
            waiting: None,
            stalled: false,
            told: false,
            retry: None,
            is_long: false,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds an entry.
    pub(crate) fn add(&mut self, entry: Entry, now: Instant) {
        self.pending.push(entry);
        self.added += 1;
        self.waiting.get_or_insert(now);
    }

    /// Returns the number of entries that were added.
    pub(crate) fn added(&self) -> u64 {
        self.added
    }

    /// Returns the number of entries that are written.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Gives the waiting entries to the thread, if it is idle; `snapshot` returns entries that can
    /// replace all earlier ones.
    pub(crate) fn start(&mut self, now: Instant, snapshot: impl FnOnce() -> Vec<Entry>) {
        let is_due = self.retry.map_or(!self.pending.is_empty(), |at| at <= now);
        if self.is_at_work || !is_due {
            return;
        }
        self.retry = None;
        let instead = std::mem::take(&mut self.is_long).then(snapshot);
        let entries = std::mem::take(&mut self.pending);
        self.give(Job::Write { entries, up_to: self.added, instead });
    }

    /// Lets the thread remove the file: its content is out of date after a run that went on without
    /// the journal.
    pub(crate) fn abandon(&mut self) {
        self.retry = None;
        self.give(Job::Abandon);
    }

    fn give(&mut self, job: Job) {
        // If the thread cannot take the job, `poll` finds that the thread is gone.
        let _ = self.jobs.as_ref().map(|jobs| jobs.try_send(job));
        self.is_at_work = true;
    }

    /// Returns the result of the thread's current job.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Done> {
        if !self.is_at_work {
            return Poll::Pending;
        }
        let done = ready!(self.done.poll_recv(cx));
        self.is_at_work = false;
        let done =
            done.unwrap_or_else(|| Done::Abandoned(Err(io::Error::other("the journal's thread ended"))));
        match &done {
            Done::Written { up_to, is_long } => {
                self.written = *up_to;
                self.is_long = *is_long;
                self.waiting = (self.written < self.added).then_some(now);
            }
            Done::Failed(_) => self.retry = Some(now + JOURNAL_RETRY),
            Done::Abandoned(_) => {}
        }
        Poll::Ready(done)
    }

    /// Returns true if the run has to wait for the disk. Logs a long wait for the disk, and the end
    /// of the wait.
    pub(crate) fn is_stalled(&mut self, now: Instant) -> bool {
        let waits = self.waiting.map_or(Duration::ZERO, |since| now.since(since));
        self.stalled = waits >= JOURNAL_STALL;
        let path = self.path.display();
        if waits >= HANG && !self.told {
            self.told = true;
            tracing::warn!(%path, "the disk of the supervisor's journal {path} does not answer, so the run takes no triggers: look at the disk");
        } else if waits < JOURNAL_STALL && std::mem::take(&mut self.told) {
            tracing::warn!(%path, "the disk of the supervisor's journal {path} answers again, and the run goes on: nothing needs to be done");
        }
        self.stalled
    }

    /// Returns the time at which the keeper must be polled again.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let stall = self.waiting.filter(|_| !self.stalled).map(|since| since + JOURNAL_STALL);
        earlier(stall, self.retry)
    }

    /// Waits until the file is closed, so that another run can open it.
    pub(crate) async fn close(mut self) {
        self.jobs = None;
        let end = async { while self.done.recv().await.is_some() {} };
        if tokio::time::timeout(LAST_WRITE, end).await.is_err() {
            let path = self.path.display();
            tracing::warn!(%path, "the disk of the journal {path} does not answer, so the file stays open until this process ends: look at the disk");
        }
    }
}

impl Drop for Keeper {
    /// A keeper that is dropped without `close` still writes its entries and closes the file, so
    /// that another process can open it at once, unless the disk hangs.
    fn drop(&mut self) {
        self.done.close();
        if !self.pending.is_empty() {
            let (entries, up_to) = (std::mem::take(&mut self.pending), self.added);
            self.give(Job::Write { entries, up_to, instead: None });
        }
        self.jobs = None;
        let Some(thread) = self.thread.take() else { return };
        for _ in 0..LAST_LOOKS {
            if thread.is_finished() {
                let _ = thread.join();
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Runs the journal's thread.
fn work(mut store: Box<dyn Store>, jobs: &jobs::Receiver<Job>, say: &mpsc::Sender<Done>) {
    while let Ok(job) = jobs.recv() {
        let Job::Write { entries, up_to, instead } = job else {
            let _ = say.blocking_send(Done::Abandoned(store.abandon()));
            return;
        };
        entries.iter().for_each(|entry| store.append(entry));
        let done = match store.commit() {
            Ok(()) => {
                if let Some(error) = instead.and_then(|entries| store.replace(&entries).err()) {
                    let path = store.path().display();
                    tracing::warn!(%path, %error, "cannot shorten the journal {path}, so it keeps growing: {error}; make room on its disk, or make its directory writable");
                }
                Done::Written { up_to, is_long: store.is_long() }
            }
            Err(error) => Done::Failed(error),
        };
        // If the keeper is gone, the result has no reader, and no further job follows.
        let _ = say.blocking_send(done);
    }
}
