//! [`Wakes`]: which of a task's many connections are ready, so that the task polls only these.

#[cfg(test)]
mod tests;

use std::{
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Wake, Waker},
};

/// A waker for each of many connections of one task. A connection that wakes its waker wakes the
/// task, and is in the list that [`Wakes::take`] returns.
#[derive(Debug, Default)]
pub(crate) struct Wakes {
    woken: Arc<Woken>,
    wakers: Vec<Waker>,
}

#[derive(Debug, Default)]
struct Woken(Mutex<WakeState>);

#[derive(Debug, Default)]
struct WakeState {
    /// Connections that have woken since the last call of [`Wakes::take`], each once.
    list: Vec<usize>,
    /// For each connection, true if it is in `list`.
    is_listed: Vec<bool>,
    task: Option<Waker>,
}

struct One {
    connection: usize,
    woken: Arc<Woken>,
}

impl Wakes {
    /// Creates the wakers of `count` connections, which all count as woken.
    pub(crate) fn new(count: usize) -> Self {
        let woken = Arc::new(Woken::default());
        let waker = |connection| Waker::from(Arc::new(One { connection, woken: Arc::clone(&woken) }));
        let wakers = (0..count).map(waker).collect();
        *woken.lock() = WakeState { list: (0..count).collect(), is_listed: vec![true; count], task: None };
        Self { woken, wakers }
    }

    /// Returns the waker of a connection.
    pub(crate) fn waker(&self, connection: usize) -> &Waker {
        &self.wakers[connection]
    }

    /// Lists a connection for the next call of [`Self::take`], without waking the task.
    pub(crate) fn list(&self, connection: usize) {
        self.woken.lock().list(connection);
    }

    /// Puts the connections that have woken since the last call into `list`, in the order in which
    /// they did, and wakes this task when the next one wakes.
    pub(crate) fn take(&self, cx: &Context<'_>, list: &mut Vec<usize>) {
        let mut state = self.woken.lock();
        list.clear();
        mem::swap(list, &mut state.list);
        list.iter().for_each(|connection| state.is_listed[*connection] = false);
        if state.task.as_ref().is_none_or(|task| !task.will_wake(cx.waker())) {
            state.task = Some(cx.waker().clone());
        }
    }
}

impl Woken {
    fn lock(&self) -> MutexGuard<'_, WakeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WakeState {
    fn list(&mut self, connection: usize) {
        if !mem::replace(&mut self.is_listed[connection], true) {
            self.list.push(connection);
        }
    }
}

impl Wake for One {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let mut state = self.woken.lock();
        state.list(self.connection);
        let task = state.task.clone();
        drop(state);
        task.into_iter().for_each(Waker::wake);
    }
}
