//! The clients that watch a run: a Prometheus that scrapes, and browsers that show the page.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::eco::daemon;

/// Interval at which each client polls.
const EVERY: Duration = Duration::from_secs(1);
/// Interval at which clients check that the run is over.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const BROWSERS: usize = 3;

/// One client that scrapes and three that poll, each in its own thread.
pub(super) struct Clients {
    over: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Clients {
    pub(super) fn start() -> Self {
        let (over, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = |look: fn(&mut u64) -> Result<()>| {
            let (over, answers) = (Arc::clone(&over), Arc::clone(&answers));
            thread::spawn(move || {
                let mut newest = 0;
                while !over.load(Relaxed) {
                    let next = Instant::now() + EVERY;
                    if look(&mut newest).is_ok() {
                        answers.fetch_add(1, Relaxed);
                    }
                    while !over.load(Relaxed) && Instant::now() < next {
                        thread::sleep(LOOK_EVERY);
                    }
                }
            })
        };
        let mut threads = vec![thread(scrape)];
        threads.extend((0..BROWSERS).map(|_| thread(show)));
        Self { over, answers, threads }
    }

    /// Stops the clients, and returns the number of answers they got.
    pub(super) fn stop(self) -> u64 {
        self.over.store(true, Relaxed);
        for thread in self.threads {
            let _ = thread.join();
        }
        self.answers.load(Relaxed)
    }
}

fn scrape(_: &mut u64) -> Result<()> {
    daemon::text("GET", "/metrics").map(drop)
}

/// Requests what the page requests once a second.
fn show(newest: &mut u64) -> Result<()> {
    daemon::ask("GET", "/v1/status")?;
    let (_, history) = daemon::ask("GET", &format!("/v1/history?after={newest}"))?;
    *newest = history["next"].as_u64().unwrap_or(*newest);
    Ok(())
}
