use evb_core::units::Rate;
use evb_net::host::Unavailable;

use super::{Verdict, finding, made_up::facts, verdict};

#[test]
fn copies_must_keep_up_with_full_links() {
    let mut facts = facts();
    let gigabits = |count: u64| Rate::from_bits_per_second(count * 1_000_000_000);
    let mut judged = |needed| {
        facts.demand.as_mut().unwrap().copies = Some(gigabits(needed));
        verdict(&facts, "memory copies").0
    };
    // The host copies 80 Gbit/s.
    assert_eq!(judged(40), Verdict::Good);
    assert_eq!(judged(41), Verdict::Better);
    assert_eq!(judged(80), Verdict::Better);
    assert_eq!(judged(81), Verdict::Bad);
    let found = finding(&facts, "memory copies");
    assert_eq!(found.value, "80 Gbit/s by 4 threads");
    assert_eq!(
        found.why,
        "the sources and builders of this host copy 81 Gbit/s while their links are full, so they may be slower: host fewer of them here, or use a faster host"
    );
    assert_eq!(found.data["needed_bits_per_second"], 81_000_000_000_u64);
}

#[test]
fn without_a_need_there_is_no_verdict() {
    let mut facts = facts();
    facts.demand.as_mut().unwrap().copies = None;
    assert_eq!(verdict(&facts, "memory copies").0, Verdict::Unknown);
    facts.memory = Err(Unavailable::new("no thread"));
    assert!(finding(&facts, "memory copies").unavailable);
}
