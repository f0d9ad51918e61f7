//! Front ends of the page test, which send a fragment of every trigger of a periodic clock.

use std::{
    io::Write as _,
    net::TcpStream,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;

/// Time between two triggers of `readouts.toml`.
const EVERY: Duration = Duration::from_millis(10);

/// The connection of a board, if it is open, and whether the board hangs.
struct State {
    stream: Option<TcpStream>,
    hangs: bool,
}

/// A board, whose thread ends with the program.
pub(super) struct Board {
    port: u16,
    state: Arc<Mutex<State>>,
}

impl Board {
    /// Connects a board that sends fragments from `begun`, the start of the run, on.
    pub(super) fn start(port: u16, begun: Instant) -> Result<Self> {
        let stream = Some(TcpStream::connect(("127.0.0.1", port))?);
        let state = Arc::new(Mutex::new(State { stream, hangs: false }));
        let own = state.clone();
        thread::spawn(move || {
            let mut sent = 0;
            loop {
                let triggers = (begun.elapsed().as_nanos() / EVERY.as_nanos()) as u64;
                if let State { stream: Some(stream), hangs: false } = &mut *lock(&own) {
                    for event in sent + 1..=triggers {
                        let head = [&8_u32.to_le_bytes()[..], &event.to_le_bytes(), &event.to_le_bytes()];
                        // evb closes the connection at the end of the run.
                        let _ = stream.write_all(&[&head.concat()[..], &[7; 8]].concat());
                    }
                }
                sent = triggers;
                thread::sleep(EVERY / 2);
            }
        });
        Ok(Self { port, state })
    }

    /// Closes the connection.
    pub(super) fn die(&self) {
        lock(&self.state).stream = None;
    }

    /// Sends nothing more on the open connection.
    pub(super) fn hang(&self) {
        lock(&self.state).hangs = true;
    }

    /// Sends fragments on a new connection.
    pub(super) fn revive(&self) -> Result<()> {
        lock(&self.state).stream = Some(TcpStream::connect(("127.0.0.1", self.port))?);
        Ok(())
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
