use evb_core::{
    id::EventId,
    trigger::{
        announcement::Asked,
        numbers::{Judged, TriggerNumbers},
    },
};

use super::taker::Taker;
use crate::{
    source::{PushError, Readout, Source},
    trigger_feed::TriggerListener,
};

#[cfg(test)]
mod tests;

/// Makes the fragment of every event whose trigger is announced, at once and before the event is
/// assigned, until the run is over. Use this for readout that cannot wait until the event is
/// assigned to a builder.
///
/// The trigger number is the event id. If an announcement skips trigger numbers, the skipped
/// triggers count as announced too (TRIG-5 in `docs/reference/triggers.md`), from the source's
/// [first event](Source::first_event) on. Trigger messages without a number are ignored: a source
/// that missed one such message would assign wrong event ids for ever.
pub async fn push_at_triggers(mut triggers: TriggerListener, mut readout: impl Readout, source: Source) {
    let follow = follow(&mut triggers, &mut readout, source.clone(), source.first_event());
    tokio::select! {
        () = follow => {}
        _ = source.finished() => {}
    }
}

/// Follows triggers from event `first` on. Earlier triggers were announced before this source
/// joined, so it takes no part in their events.
async fn follow(
    triggers: &mut TriggerListener,
    readout: &mut impl Readout,
    taker: impl Taker,
    first: EventId,
) {
    let (mut numbers, mut warned) = (TriggerNumbers::after(first.number() - 1), false);
    loop {
        let announcement = match triggers.asked().await {
            Asked::Announced(announcement) => announcement,
            Asked::Count(_) => {
                if !std::mem::replace(&mut warned, true) {
                    tracing::warn!(
                        "the trigger messages carry no trigger numbers, so this source ignores them and makes no fragments; let the trigger program send announcements with numbers"
                    );
                }
                continue;
            }
        };
        let last = numbers.last();
        let Judged::New(_) = numbers.judge(announcement) else { continue };
        numbers.take(announcement);
        for event in last + 1..=announcement.number {
            let Some(fragment) = readout.fragment(EventId::new(event)) else { continue };
            match taker.take(fragment).await {
                Ok(()) => {}
                Err(PushError::Ended) => return,
                Err(error) => {
                    tracing::error!(event_id = event, %error, "this source refused the fragment that its readout made for event {event}, which is lost, and the run goes on: {error}");
                }
            }
        }
    }
}
