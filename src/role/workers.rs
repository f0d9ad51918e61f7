//! Threads that host many roles, for processes with more roles than a machine has use for threads.

#[cfg(test)]
mod tests;

use std::{
    future::Future,
    io,
    num::NonZeroUsize,
    pin::Pin,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use tokio::{runtime, sync::mpsc, task};

/// Number of roles in a process that may have threads of their own. Further roles share a thread
/// for each core: a thousand threads that want to run would keep each other waiting for seconds,
/// and builders and supervisor with them.
const OWN_THREADS: usize = 16;

/// The future of a role, which stays on one thread.
type Role = Pin<Box<dyn Future<Output = ()>>>;
/// Creates the future on the thread that will run it.
type Job = Box<dyn FnOnce() -> Role + Send>;

/// A place among the threads of their own; dropping it frees the place.
#[derive(Debug)]
pub(super) struct OwnThread(());

static OWN: AtomicUsize = AtomicUsize::new(0);

impl OwnThread {
    /// Takes a place, unless none is free.
    pub(super) fn take() -> Option<Self> {
        let more = |taken: usize| (taken < OWN_THREADS).then_some(taken + 1);
        OWN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self(()))
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        OWN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs a role on one of the threads that roles share.
///
/// # Errors
/// Fails if the threads cannot be started.
pub(super) fn run(job: impl FnOnce() -> Role + Send + 'static) -> io::Result<()> {
    static WORKERS: OnceLock<Vec<mpsc::UnboundedSender<Job>>> = OnceLock::new();
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let workers = match WORKERS.get() {
        Some(workers) => workers,
        None => {
            let count = thread::available_parallelism().map_or(1, NonZeroUsize::get);
            let started = (0..count).map(|_| start()).collect::<io::Result<_>>()?;
            // If another thread was faster, its workers serve, and the new ones end.
            WORKERS.get_or_init(|| started)
        }
    };
    let worker = &workers[NEXT.fetch_add(1, Ordering::Relaxed) % workers.len()];
    worker.send(Box::new(job)).map_err(|_| {
        io::Error::other("a thread of evb has ended, which is a fault of evb; start this process again")
    })
}

/// Starts a thread that runs the roles which it is sent.
fn start() -> io::Result<mpsc::UnboundedSender<Job>> {
    let (jobs, mut queue) = mpsc::unbounded_channel::<Job>();
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    crate::threads::start("roles", move || {
        let roles = task::LocalSet::new();
        roles.block_on(&runtime, async {
            while let Some(job) = queue.recv().await {
                task::spawn_local(job());
            }
        });
    })?;
    Ok(jobs)
}
