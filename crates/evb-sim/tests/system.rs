//! Tests whole systems with faults, with a few of the seeds that `cargo xtask seeds` runs.

use evb_sim::{
    Transport,
    system::{Scenario, run},
};

fn check(seeds: core::ops::Range<u64>, transport: Transport) {
    for seed in seeds {
        let outcome = run(&Scenario::of_seed(seed, Some(transport)), false);
        assert_eq!(outcome.failure, None, "seed {seed} over {}", transport.word());
    }
}

#[test]
fn nothing_is_missing_over_streams() {
    check(0..25, Transport::Tcp);
}

#[test]
fn nothing_is_missing_over_datagrams() {
    check(0..25, Transport::Udp);
}

/// Replays a seed in which a builder is killed while it holds events that do not wait for a source
/// whose readout is silent. The source used to drop its fragments of these events.
#[test]
fn a_source_whose_readout_is_silent_keeps_its_fragments_when_a_builder_is_killed() {
    assert_eq!(run(&Scenario::of_seed(992, None), false).failure, None);
}

#[test]
fn equal_seeds_give_equal_traces() {
    for seed in 0..10 {
        let [once, again] = [true, false].map(|is_read| run(&Scenario::of_seed(seed, None), is_read));
        assert_eq!((once.hash, once.counts), (again.hash, again.counts), "seed {seed}");
        assert!(!once.lines.is_empty() && again.lines.is_empty());
    }
    let of = |seed| run(&Scenario::of_seed(seed, None), false).hash;
    assert_ne!(of(1), of(2));
}

#[test]
fn reads_in_pieces_of_any_length_change_nothing() {
    for seed in 0..20 {
        let [whole, torn] = [false, true].map(|is_torn| {
            let scenario = Scenario { is_torn, ..Scenario::of_seed(seed, Some(Transport::Tcp)) };
            run(&scenario, false)
        });
        assert_eq!((whole.hash, whole.counts), (torn.hash, torn.counts), "seed {seed}");
    }
}
