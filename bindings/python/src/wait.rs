//! Waits for evb without the interpreter's lock, so that other Python threads go on and Ctrl-C
//! works.

use std::{future::Future, pin::pin, sync::LazyLock, thread, time::Duration};

use evb::role::{RoleError, is_forked_child};
use pyo3::prelude::*;
use tokio::{runtime::Runtime, sync::oneshot};

use crate::errors::error;

/// Time between two looks for signals such as Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

/// The runtime of all waiting calls. It has one thread, for timers; the waiting itself happens on
/// the caller's thread.
static RUNTIME: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("evb-python")
        .enable_all()
        .build()
});

/// Refuses a forked child of a process that uses evb: no thread there would end the wait.
fn check_process() -> PyResult<()> {
    if is_forked_child() { Err(error(RoleError::Forked)) } else { Ok(()) }
}

/// Waits until the future is ready. If a signal handler raises, the future is dropped.
pub(crate) fn wait<T: Send>(py: Python<'_>, future: impl Future<Output = T> + Send) -> PyResult<T> {
    check_process()?;
    let runtime = RUNTIME.as_ref().map_err(error)?;
    let mut future = pin!(future);
    loop {
        let turn = async { tokio::time::timeout(LOOK, future.as_mut()).await };
        match py.detach(|| runtime.block_on(turn)) {
            Ok(result) => return Ok(result),
            Err(_) => py.check_signals()?,
        }
    }
}

/// Runs a future on a thread of its own until it is ready. If a signal handler raises before, the
/// result is given to `unwanted`.
pub(crate) fn wait_apart<T, F>(
    py: Python<'_>,
    start: impl FnOnce() -> F + Send + 'static,
    unwanted: fn(T),
) -> PyResult<T>
where
    T: Send + 'static,
    F: Future<Output = T>,
{
    check_process()?;
    let (sender, receiver) = oneshot::channel();
    let work = move || {
        if let Ok(result) = evb::block_on(start())
            && let Err(result) = sender.send(result)
        {
            unwanted(result);
        }
    };
    thread::Builder::new().name("evb-start".to_owned()).spawn(work).map_err(error)?;
    wait(py, receiver)?.map_err(|_| error("the operating system refused a thread: raise the limits of this process, which `ulimit -a` shows"))
}
