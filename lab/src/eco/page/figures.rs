//! Compares the figures on the control page with those in evbd's status.

use std::time::Duration;

use anyhow::Result;
use lab_base::report::{Bound, Report};
use serde_json::Value;

use super::browser::Browser;
use crate::eco::daemon::Daemon;

/// Largest allowed age of the figures that the page shows.
const OLD: Duration = Duration::from_secs(2);
/// Event counters, which never decrease, by their names in evbd's status.
const COUNTERS: [&str; 5] = ["triggered", "inhibited", "complete", "incomplete", "lost"];

/// Reads a figure on the page; the thin spaces between its thousands are ignored.
async fn shown(browser: &Browser, name: &str) -> Result<f64> {
    let text = browser.text(&format!("#n-{name}")).await?;
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    Ok(digits.parse().unwrap_or(f64::NAN))
}

fn count(events: &Value, name: &str) -> f64 {
    events[name].as_f64().unwrap_or(f64::NAN)
}

/// Checks that every counter on the page lies between its value in evbd's status two seconds ago
/// and its current value.
pub(super) async fn while_running(browser: &Browser, daemon: &Daemon, report: &mut Report) -> Result<()> {
    let before = daemon.status()?;
    tokio::time::sleep(OLD).await;
    let mut wrong = Vec::new();
    for name in COUNTERS {
        let shown = shown(browser, name).await?;
        let after = daemon.status()?;
        let (low, high) = (count(&before["survey"]["events"], name), count(&after["survey"]["events"], name));
        if !(low..=high).contains(&shown) {
            wrong.push(format!("{name}: {shown} is not in {low}..={high}"));
        }
    }
    for reason in &wrong {
        report.note(format!("while it runs: {reason}"));
    }
    report.holds(
        "while it runs: counters that are not the status's of 2 s",
        wrong.len() as f64,
        Bound::AtMost(0.0),
    );
    Ok(())
}

/// Checks that after a run, every counter on the page equals its value in `events`.
pub(super) async fn at_rest(
    browser: &Browser,
    name: &str,
    events: &Value,
    report: &mut Report,
) -> Result<()> {
    tokio::time::sleep(OLD).await;
    let mut wrong = Vec::new();
    for counter in COUNTERS.into_iter().chain(["rejected"]) {
        let (shown, told) = (shown(browser, counter).await?, count(events, counter));
        if shown != told {
            wrong.push(format!("{counter}: {shown} and {told}"));
        }
    }
    for reason in &wrong {
        report.note(format!("{name}: shown and told differ: {reason}"));
    }
    report.holds(
        &format!("{name}: counters that differ from the status"),
        wrong.len() as f64,
        Bound::AtMost(0.0),
    );
    Ok(())
}
