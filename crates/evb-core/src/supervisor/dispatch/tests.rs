//! Runs with many sources: decisions are collected, and heartbeats are further apart.

use core::time::Duration;

use crate::{
    id::{BuilderId, Epoch, Peer, RunNumber, SourceId},
    supervisor::{Output, Recipients, RunPlan, RunState, SupervisorCore},
    time::Instant,
    trigger::TriggerKind,
    units::Frequency,
    wire::control::{Begun, Control, Heartbeat, Hello, Message, Ready},
};

const START: Instant = Instant::from_nanos(1_000_000_000);

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// Returns a run with that many sources and one builder.
fn running(sources: u16, trigger: TriggerKind) -> SupervisorCore {
    let ids = (1..=sources).map(SourceId::new).collect();
    let plan = RunPlan::new(RunNumber::new(1), Epoch::new(1), ids, vec![BuilderId::new(1)]);
    let mut core = SupervisorCore::new(RunPlan { trigger, slots: 100, ..plan }, 1, START).unwrap();
    for peer in core.peers() {
        let hello = Hello { listen: "127.0.0.1:1".to_owned(), ..Hello::new(peer, Peer::Supervisor) };
        let welcome = core.register(&hello, START).unwrap();
        let of_source = u64::from(sources).div_ceil(64).min(16);
        let periods = if matches!(peer, Peer::Source(_)) { of_source } else { 1 };
        let parameters = welcome.parameters.unwrap();
        assert_eq!(parameters.heartbeat_ns, 250_000_000 * periods);
        assert_eq!(parameters.report_ns, (250_000_000 * of_source).max(1_000_000_000));
    }
    decisions(&mut core, START);
    for id in 1..=sources {
        says(&mut core, Peer::Source(SourceId::new(id)), Message::Ready(Ready {}), START);
    }
    for peer in core.peers() {
        says(&mut core, peer, Message::Begun(Begun::default()), START);
    }
    assert_eq!(core.progress().state, RunState::Running);
    core
}

fn says(core: &mut SupervisorCore, peer: Peer, message: Message, now: Instant) {
    core.handle_message(peer, Control { message: Some(message) }, now);
}

/// Returns the number of messages with decisions, and the number of decided triggers.
fn decisions(core: &mut SupervisorCore, now: Instant) -> (usize, u32) {
    core.handle_timeout(now);
    let outputs = core::iter::from_fn(|| core.poll(now));
    let counts = outputs.filter_map(|output| match output {
        Output::Send { message: Control { message: Some(Message::Decisions(decisions)) }, .. } => {
            Some(decisions.runs.as_chunks::<2>().0.iter().map(|[count, _]| count).sum())
        }
        _ => None,
    });
    let counts: Vec<u32> = counts.collect();
    (counts.len(), counts.iter().sum())
}

#[test]
fn few_sources_get_each_decision_at_once() {
    let mut core = running(256, TriggerKind::External);
    for turn in 0..5 {
        let now = START + micros(turn);
        assert_eq!(core.trigger(1, now), 1);
        assert_eq!(decisions(&mut core, now), (1, 1));
    }
}

#[test]
fn many_sources_get_the_decisions_of_some_time_in_one_message() {
    let mut core = running(500, TriggerKind::External);
    core.trigger(1, START);
    assert_eq!(decisions(&mut core, START), (1, 1), "the first trigger does not wait");
    for turn in 1..10 {
        let now = START + micros(100 * turn);
        assert_eq!(core.trigger(2, now), 2);
        assert_eq!(decisions(&mut core, now), (0, 0));
        assert_eq!(core.next_timeout(), Some(START + micros(1000)));
    }
    assert_eq!(decisions(&mut core, START + micros(1000)), (1, 18));
    core.trigger(3, START + micros(1001));
    core.stop("the end", START + micros(1002));
    assert_eq!(decisions(&mut core, START + micros(1002)), (1, 3), "the end of the run waits for no message");
    core.invariants();
}

#[test]
fn a_clock_and_free_slots_keep_the_time_between_messages() {
    let rate = Frequency::from_hertz(100_000.0).unwrap();
    let mut core = running(1000, TriggerKind::Periodic { rate });
    let due = core.next_timeout().unwrap();
    assert_eq!(decisions(&mut core, due).0, 1);
    assert_eq!(core.next_timeout(), Some(due + micros(2000)));
    assert_eq!(decisions(&mut core, due + micros(1999)), (0, 0));
    assert_eq!(decisions(&mut core, due + micros(2000)).0, 1);

    let mut core = running(1000, TriggerKind::AsFastAsPossible);
    assert_eq!(decisions(&mut core, START), (1, 100));
    let mut completions = crate::wire::control::Completions::default();
    let mut last = crate::id::EventId::default();
    (1..=50).for_each(|event| completions.add(&mut last, crate::id::EventId::new(event)));
    says(&mut core, Peer::Builder(BuilderId::new(1)), Message::Completions(completions), START + micros(1));
    assert_eq!(decisions(&mut core, START + micros(1)), (0, 0));
    assert_eq!(core.next_timeout(), Some(START + micros(2000)));
    assert_eq!(decisions(&mut core, START + micros(2000)), (1, 50));
}

#[test]
fn thousands_of_sources_get_their_heartbeats_in_turn() {
    let mut core = running(500, TriggerKind::External);
    let mut beats = vec![0; 501];
    for period in 1..=24 {
        let now = START + Duration::from_millis(250 * period);
        core.handle_timeout(now);
        let mut of_builder = 0;
        while let Some(output) = core.poll(now) {
            let Output::Send { to, message: Control { message: Some(Message::Heartbeat(_)) } } = output
            else {
                continue;
            };
            match to {
                Recipients::Source(id) => beats[usize::from(id.number())] += 1,
                _ => of_builder += 1,
            }
        }
        assert_eq!(of_builder, 1);
        says(&mut core, Peer::Builder(BuilderId::new(1)), Message::Heartbeat(Heartbeat::default()), now);
        // A source is down after three periods of its own heartbeats, 6 s.
        assert_eq!(core.progress().sources_up, if period < 24 { 500 } else { 0 });
    }
    assert!(beats[1..].iter().all(|count| *count == 3), "{beats:?}");
}
