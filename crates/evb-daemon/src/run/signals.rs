//! SIGINT and SIGTERM: the first signal drains the run, the second signal ends the process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Exit code of a process that ended before its ledger was closed: 130, as a shell reports SIGINT.
const LEFT: i32 = 130;

pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    seen: u32,
}

impl Signals {
    pub(super) fn new() -> io::Result<Self> {
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate, seen: 0 })
    }

    /// Waits for a signal; the second signal ends the process at once.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        self.seen += 1;
        if self.seen > 1 {
            eprintln!("interrupted again: leaving at once; the ledger stays open");
            std::process::exit(LEFT);
        }
        eprintln!(
            "stopping: no more triggers; events under way are built first (interrupt again to leave at once)"
        );
    }
}
