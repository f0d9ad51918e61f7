//! The progress line of a run on a terminal.

use std::time::Duration;

use evb::supervisor::SupervisorHandle;
use evb_core::{
    quantities::counted,
    supervisor::{Progress, RunState},
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between redraws of the line.
const INTERVAL: Duration = Duration::from_millis(200);

/// Shows the run's progress until this task is aborted. Draws nothing without a terminal.
pub(super) async fn show(handle: SupervisorHandle, events: Option<u64>) {
    let bar = ProgressBar::with_draw_target(events, ProgressDrawTarget::stderr());
    let template = match events {
        Some(_) => "{elapsed_precise} {bar:30} {pos}/{len} events {msg}",
        None => "{elapsed_precise} {spinner} {pos} events {msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    // The guard clears the progress line when the task is aborted, before the table is printed.
    let _clear = Clear(bar.clone());
    let mut ticks = tokio::time::interval(INTERVAL);
    let mut before = 0;
    let progress = handle.progress();
    loop {
        ticks.tick().await;
        let now = progress.latest();
        let settled = now.events.complete + now.events.incomplete + now.events.rejected + now.events.lost;
        let rate = (settled - before.min(settled)) as f64 / INTERVAL.as_secs_f64();
        before = settled;
        // Each of these draws the line, unless it was drawn just now.
        bar.set_message(words(&now, rate));
        bar.set_position(settled);
        bar.force_draw();
    }
}

/// Returns the run's progress as a line, for occasional readers such as a service manager.
pub(super) fn line(now: &Progress) -> String {
    let events = &now.events;
    format!(
        "{:?}: {} events complete, {} incomplete, {} lost, {} inhibited, {} under way",
        now.state, events.complete, events.incomplete, events.lost, events.inhibited, now.outstanding
    )
}

/// Describes the progress of a run in a line.
fn words(now: &Progress, rate: f64) -> String {
    let sources = counted(now.sources_up, "source");
    let builders = counted(now.builders_up, "builder");
    match now.state {
        RunState::Configured => {
            format!("waiting for sources and builders: {sources}, {builders} up so far")
        }
        RunState::Paused => {
            format!("paused, no triggers are taken: {} under way", counted(now.outstanding, "event"))
        }
        RunState::Recovering => {
            format!("going on after the supervisor's restart: {sources}, {builders} back")
        }
        RunState::Running => {
            let mut words = format!("{rate:.0}/s");
            for (count, what) in [
                (now.events.incomplete, "incomplete"),
                (now.events.lost, "lost"),
                (now.events.inhibited, "inhibited"),
            ] {
                if count > 0 {
                    words += &format!(", {count} {what}");
                }
            }
            words
        }
        RunState::Stopping => format!(
            "the run is stopping: {} still to be built and written",
            counted(now.outstanding, "event")
        ),
        RunState::Ended => "the run is over: adding up what became of its triggers".to_owned(),
    }
}

struct Clear(ProgressBar);

impl Drop for Clear {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
