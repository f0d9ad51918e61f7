use super::*;
use crate::id::{BuilderId, Epoch, RunNumber, SourceId};

#[test]
fn ids_are_listed_as_ranges_of_which_ten_are_shown() {
    assert_eq!(ranges([3_u16]), "3");
    assert_eq!(ranges([1_u64, 2, 4, 5, 6, 9]), "1, 2, 4-6, 9");
    assert_eq!(ranges((0_u16..4096).filter(|id| *id != 7)), "0-6, 8-4095");
    assert_eq!(ranges((1_u64..=12).map(|id| id * 10)), "10, 20, 30, 40, 50, 60, 70, 80, 90, 100, and 2 more");
    assert_eq!(ranges([u64::MAX - 1, u64::MAX]), "18446744073709551614, 18446744073709551615");
}

#[test]
fn peers_are_named_by_role() {
    let source = |id| Peer::Source(SourceId::new(id));
    let builder = |id| Peer::Builder(BuilderId::new(id));
    assert_eq!(names(&[source(1), builder(1)]), "source 1, builder 1");
    let all: Vec<Peer> = (1..=50).chain([60]).map(source).chain([builder(3), builder(4)]).collect();
    assert_eq!(names(&all), "sources 1-50, 60, builders 3, 4");
}

#[test]
fn few_peers_are_listed_with_their_names() {
    let source = |id| Peer::Source(SourceId::new(id));
    let (sources, builders) = ((1..=9).map(SourceId::new).collect(), vec![BuilderId::new(1)]);
    let mut plan = RunPlan::new(RunNumber::new(1), Epoch::new(1), sources, builders);
    assert_eq!(names_in(&plan, &[source(1), source(2)]), "sources 1, 2");
    plan.source_names.insert(SourceId::new(2), "TPC crate 2".to_owned());
    assert_eq!(names_in(&plan, &[source(1), source(2)]), "source 1, source 2 (TPC crate 2)");
    let many: Vec<Peer> = (1..=9).map(source).collect();
    assert_eq!(names_in(&plan, &many), "sources 1-9");
}

#[test]
fn peers_with_one_reason_are_named_together() {
    let source = |id, reason: &str| (Peer::Source(SourceId::new(id)), reason.to_owned());
    let builder = (Peer::Builder(BuilderId::new(2)), "no disk".to_owned());
    let peers = [source(1, "no disk"), source(2, ""), source(3, "no card"), source(4, "no disk"), builder];
    assert_eq!(
        with_reasons(&peers, names),
        "sources 1, 4, builder 2 (no disk), source 3 (no card), source 2"
    );
}

#[test]
fn a_reason_from_a_peer_is_one_line_and_never_empty() {
    assert_eq!(reason_of("its disk\nis gone"), "its diskis gone");
    for nothing in ["", "\n", " \t "] {
        assert_eq!(reason_of(nothing), "it gave no reason");
    }
}
