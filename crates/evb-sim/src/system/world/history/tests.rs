use super::*;
use evb_core::transport::Transport;

const SECOND: Duration = Duration::from_secs(1);

/// Returns a scenario in which the end of a run waits for 6 s, and a system without faults settles
/// an event within 2.1 s.
fn scenario(builders: u16) -> Scenario {
    Scenario {
        builders,
        deadline: SECOND,
        drain_grace: 5 * SECOND,
        commit: SECOND / 10,
        write: Duration::ZERO,
        weather: crate::system::Conditions::steady(Duration::ZERO, 1),
        ..Scenario::of_seed(1, Some(Transport::Tcp))
    }
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + SECOND * 100 + SECOND * seconds as u32
}

fn builder(id: u16) -> Peer {
    Peer::Builder(BuilderId::new(id))
}

fn is_explained(faults: &[(u64, Fault)], lost: u64, scenario: &Scenario) -> bool {
    let faults = faults.iter().map(|(begin, fault)| (at(*begin), *fault)).collect();
    History { faults, lost_at: Some(at(lost)) }.explains_losses(scenario)
}

#[test]
fn a_loss_without_a_fault_has_no_explanation() {
    assert!(!is_explained(&[], 20, &scenario(1)));
    assert!(History::default().explains_losses(&scenario(1)), "nothing is lost");
}

#[test]
fn a_fault_explains_a_loss_while_it_lasts_and_shortly_after() {
    let kill = Fault::Kill { who: builder(1), down: 10 * SECOND };
    let scenario = scenario(1);
    assert!(is_explained(&[(5, kill)], 15, &scenario));
    assert!(is_explained(&[(5, kill)], 20, &scenario));
    assert!(!is_explained(&[(5, kill)], 22, &scenario), "it was over for 3 s, and events can be settled");
    assert!(!is_explained(&[(18, kill)], 20, &scenario), "there were 4 s before the fault");
    assert!(is_explained(&[(5, kill), (18, kill)], 22, &scenario), "both together leave no time");
}

#[test]
fn another_builder_gets_the_events_of_one_that_is_away() {
    let kill = Fault::Kill { who: builder(1), down: 10 * SECOND };
    assert!(!is_explained(&[(5, kill)], 15, &scenario(2)));
    let both = [(5, kill), (5, Fault::Freeze { who: builder(2), length: 10 * SECOND })];
    assert!(is_explained(&both, 15, &scenario(2)));
}

#[test]
fn a_slow_disk_explains_no_loss_unless_one_write_takes_too_long() {
    let slow = |seconds| {
        let state = DiskState::Slow(seconds * SECOND);
        [(5, Fault::Disk { who: builder(1), state, length: 20 * SECOND })]
    };
    assert!(!is_explained(&slow(3), 15, &scenario(1)));
    assert!(is_explained(&slow(4), 15, &scenario(1)));
}

#[test]
fn faults_are_forgotten_when_a_later_run_cannot_suffer_from_them() {
    let mut history = History::default();
    history.note_fault(Fault::Kill { who: builder(1), down: 10 * SECOND }, at(0));
    history.open_run(at(20));
    assert_eq!(history.faults().len(), 1);
    history.open_run(at(23));
    assert!(history.faults().is_empty());
}
