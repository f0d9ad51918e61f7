//! Clients that monitor a run: they send the requests of a Prometheus that scrapes and of browsers
//! that show the control page.

use std::{
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::Result;

use crate::eco::daemon;

/// Interval between the requests of a client.
const EVERY: Duration = Duration::from_secs(1);
const BROWSERS: usize = 3;

/// One client that scrapes metrics and three clients that poll the status, each in its own thread.
/// Clients sleep between requests, so that they cost no more than their requests.
pub(super) struct Clients(Vec<Client>);

struct Client {
    /// Sender whose drop stops the client.
    stop: Sender<()>,
    /// Thread of the client, which returns the number of answers that the client got.
    thread: JoinHandle<u64>,
}

impl Clients {
    pub(super) fn start() -> Self {
        let looks: [fn(&mut u64) -> Result<()>; 1 + BROWSERS] = [scrape, show, show, show];
        Self(looks.map(Client::start).into())
    }

    /// Stops the clients, and returns the number of answers that all of them got.
    pub(super) fn stop(self) -> u64 {
        self.0
            .into_iter()
            .map(|client| {
                drop(client.stop);
                client.thread.join().unwrap_or_default()
            })
            .sum()
    }
}

impl Client {
    fn start(look: fn(&mut u64) -> Result<()>) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let (mut newest, mut answers, mut next) = (0, 0, Instant::now());
            loop {
                answers += u64::from(look(&mut newest).is_ok());
                next += EVERY;
                let left = next.saturating_duration_since(Instant::now());
                if stopped.recv_timeout(left) == Err(RecvTimeoutError::Disconnected) {
                    return answers;
                }
            }
        });
        Self { stop, thread }
    }
}

fn scrape(_: &mut u64) -> Result<()> {
    daemon::text("GET", "/metrics").map(drop)
}

/// Sends the requests that the control page sends once a second.
fn show(newest: &mut u64) -> Result<()> {
    daemon::ask("GET", "/v1/status")?;
    let (_, history) = daemon::ask("GET", &format!("/v1/history?after={newest}"))?;
    *newest = history["next"].as_u64().unwrap_or(*newest);
    Ok(())
}
