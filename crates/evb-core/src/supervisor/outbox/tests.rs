use core::time::Duration;

use super::*;
use crate::{
    id::{RunNumber, SourceId},
    wire::control::{Heartbeat, Stop},
};

const NOW: Instant = Instant::from_nanos(7);

fn outbox(journal: bool) -> Outbox {
    let (sources, builders) = (vec![SourceId::new(3)], vec![BuilderId::new(1), BuilderId::new(2)]);
    let plan = RunPlan { journal, ..RunPlan::new(RunNumber::new(1), Epoch::new(9), sources, builders) };
    let mut outbox = Outbox::new(&plan);
    outbox.address(SourceSet::first(1), SourceSet::default(), 4);
    outbox
}

/// Returns the names of all queued outputs.
fn names(outbox: &mut Outbox) -> Vec<&'static str> {
    let name = |output| match output {
        Output::Send { message, .. } => match message.message {
            Some(Message::Assignments(assignments)) => {
                assert_eq!((assignments.roster_version, assignments.epoch), (4, 9));
                "assignments"
            }
            Some(Message::Decisions(_)) => "decisions",
            Some(Message::Heartbeat(_)) => "heartbeat",
            _ => "other",
        },
        Output::Journal(_) => "journal",
        Output::Drop { .. } => "drop",
        Output::Begun(_) => "begun",
        Output::Ended(_) => "ended",
    };
    core::iter::from_fn(|| outbox.pop()).map(name).collect()
}

#[test]
fn decisions_leave_behind_their_entry_and_their_assignments_and_before_other_messages() {
    let mut outbox = outbox(true);
    assert_eq!(outbox.assign(BuilderIndex::new(1), 5, NOW), 1);
    assert_eq!((outbox.inhibit(2, NOW), outbox.decided()), (2, 3));
    assert_eq!(names(&mut outbox), [""; 0]);
    outbox.send(Recipients::Everyone, Message::Stop(Stop::default()));
    assert_eq!(names(&mut outbox), ["journal", "assignments", "decisions", "other"]);
}

#[test]
fn heartbeats_overtake_decisions_that_the_journal_does_not_take() {
    let mut outbox = outbox(true);
    outbox.stall(NOW);
    outbox.inhibit(1, NOW);
    outbox.send_ahead(Recipients::Everyone, Message::Heartbeat(Heartbeat::default()));
    outbox.close_batches_if_written();
    assert_eq!(names(&mut outbox), ["heartbeat"]);
    assert_eq!(outbox.go_on(NOW + Duration::from_secs(1)), Some(Duration::from_secs(1)));
    outbox.close_batches_if_written();
    assert_eq!(names(&mut outbox), ["journal", "decisions"]);
}

#[test]
fn decisions_so_far_go_to_the_sources_of_the_roster_so_far() {
    let mut outbox = outbox(false);
    outbox.inhibit(1, NOW);
    outbox.address(SourceSet::default(), SourceSet::default(), 5);
    assert_eq!(names(&mut outbox), ["decisions"]);
    outbox.inhibit(1, NOW);
    outbox.close_batches();
    assert_eq!(names(&mut outbox), [""; 0], "no source is up");
}

#[test]
fn without_a_journal_nothing_is_written_down_and_nothing_stalls() {
    let mut outbox = outbox(false);
    outbox.stall(NOW);
    outbox.raise_epoch(NOW);
    assert_eq!((outbox.is_stalled(), outbox.epoch(), names(&mut outbox)), (false, Epoch::new(10), vec![]));
    outbox.keep_journal();
    outbox.raise_epoch(NOW);
    assert_eq!(names(&mut outbox), ["journal"]);
}
