//! [`JournalWriter`]: writes the journal on a thread of its own, so that a disk that hangs delays
//! only messages that depend on the journal.

use std::{
    fmt::Debug,
    io,
    path::{Path, PathBuf},
    sync::mpsc as jobs,
    task::{Context, Poll},
    thread::JoinHandle,
    time::Duration,
};

use evb_core::{
    supervisor::{JournalWrite, SupervisorRole},
    time::Instant,
    wire::journal::Entry,
};
use tokio::sync::mpsc;

use super::Journal;

/// Time for which the end of a run waits for the journal's last write.
const LAST_WRITE: Duration = Duration::from_secs(5);

/// Number of milliseconds for which `drop` waits for the journal's last write.
const LAST_LOOKS: u32 = 100;

/// A store of entries: the journal's file, or a substitute in a test.
pub(crate) trait Store: Debug + Send {
    fn path(&self) -> &Path;
    fn append(&mut self, entry: &Entry);
    fn commit(&mut self) -> io::Result<()>;
    fn length(&self) -> u64;
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

    fn length(&self) -> u64 {
        self.length()
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
    Write(JournalWrite),
    Abandon,
}

/// The result of a job.
#[derive(Debug)]
enum Done {
    /// The entries are written; the length of the journal, and the result of replacing it.
    Written(u64, io::Result<()>),
    /// The write failed.
    Failed(io::Error),
    /// The file is removed, or could not be removed.
    Abandoned(io::Result<()>),
}

/// The journal as the driver uses it: the thread that writes to the file.
#[derive(Debug)]
pub(crate) struct JournalWriter {
    path: PathBuf,
    jobs: Option<jobs::SyncSender<Job>>,
    done: mpsc::Receiver<Done>,
    thread: Option<JoinHandle<()>>,
}

impl JournalWriter {
    /// Tells the state machine the results of the journal's writes, if a journal is kept. Returns
    /// true if there was a result. A journal that was given up is no longer kept.
    pub(crate) fn feed(
        journal: &mut Option<Self>,
        cx: &mut Context<'_>,
        role: &mut SupervisorRole,
        now: Instant,
    ) -> bool {
        let text = |error: io::Error| error.to_string();
        let mut any = false;
        while let Some(Poll::Ready(done)) = journal.as_mut().map(|journal| journal.done.poll_recv(cx)) {
            let ended = || {
                Done::Abandoned(Err(io::Error::other(
                    "the thread that writes the journal has ended, which is a fault of evb (report it with the logs)",
                )))
            };
            match done.unwrap_or_else(ended) {
                Done::Written(length, replaced) => {
                    role.handle_journal_written(length, replaced.map_err(text), now);
                }
                Done::Failed(error) => role.handle_journal_failure(text(error), now),
                Done::Abandoned(removed) => {
                    *journal = None;
                    role.handle_journal_abandoned(removed.map_err(text), now);
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
        Ok(Self { path, jobs: Some(jobs), done, thread: Some(thread) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Lets the thread write.
    pub(crate) fn write(&mut self, write: JournalWrite) {
        self.give(Job::Write(write));
    }

    /// Lets the thread remove the file: its content is out of date after a run that went on without
    /// the journal.
    pub(crate) fn abandon(&mut self) {
        self.give(Job::Abandon);
    }

    fn give(&mut self, job: Job) {
        // If the thread cannot take the job, `feed` finds that the thread is gone.
        let _ = self.jobs.as_ref().map(|jobs| jobs.try_send(job));
    }

    /// Waits until the file is closed, so that another run can open it.
    pub(crate) async fn close(mut self) {
        self.jobs = None;
        let end = async { while self.done.recv().await.is_some() {} };
        if tokio::time::timeout(LAST_WRITE, end).await.is_err() {
            let path = self.path.display();
            tracing::warn!(%path, "the disk of the supervisor's journal {path} does not answer, so the file stays open until this process ends, which costs no event: check the disk before the next run");
        }
    }
}

impl Drop for JournalWriter {
    /// A writer that is dropped without `close` still finishes its write and closes the file, so
    /// that another process can open it at once, unless the disk hangs.
    fn drop(&mut self) {
        self.done.close();
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
        let Job::Write(JournalWrite { entries, snapshot }) = job else {
            let _ = say.blocking_send(Done::Abandoned(store.abandon()));
            return;
        };
        entries.iter().for_each(|entry| store.append(entry));
        let done = match store.commit() {
            Ok(()) => {
                let replaced = snapshot.map_or(Ok(()), |entries| store.replace(&entries));
                Done::Written(store.length(), replaced)
            }
            Err(error) => Done::Failed(error),
        };
        // If the writer is gone, the result has no reader, and no further job follows.
        let _ = say.blocking_send(done);
    }
}
