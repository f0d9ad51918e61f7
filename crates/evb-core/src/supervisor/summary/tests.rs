use proptest::prelude::*;

use super::*;
use crate::{
    id::{BuilderId, Epoch, RunNumber, SourceId},
    supervisor::{
        RunPlan,
        roster::{Seat, keep_report},
    },
    wire::control::{Begin, PathReport, Report, RoleReport, SourceReport},
};

#[test]
fn the_worst_ten_paths_of_all_sources_are_named() {
    let ids = |count| (1..=count).collect::<Vec<u16>>();
    let plan = RunPlan::new(
        RunNumber::new(1),
        Epoch::new(1),
        ids(3).into_iter().map(SourceId::new).collect(),
        ids(9).into_iter().map(BuilderId::new).collect(),
    );
    let mut roster = Roster::new(&plan);
    for source in 0..3u64 {
        let path = |builder: u32| PathReport {
            builder,
            tcp_retransmits: if builder > 9 { 1000 } else { u64::from(builder) * (source + 1) },
            resends: u64::from(builder == 1 && source == 0) * 50,
        };
        let paths = [1, 4, 7, 9, 77, 70_000].map(path).into();
        let own = RoleReport::Source(SourceReport { paths, ..SourceReport::default() });
        let seat = Seat::Source(SourceIndex::new(source as usize));
        keep_report(&mut roster, seat, Report { report: Some(own), live: None }, Instant::ZERO).unwrap();
    }
    let (assigner, books) = (Assigner::new(&plan), Books::new(3, 9));
    let summary = Summary {
        plan: &plan,
        roster: &roster,
        assigner: &assigner,
        books: &books,
        begin: &Begin::default(),
        triggers: AnnouncementCounts::default(),
        drained: Instant::ZERO,
    };
    let seen: Vec<_> = summary.report().paths.iter().map(|path| (path.source, path.builder)).collect();
    assert_eq!(seen, [(1, 1), (3, 9), (3, 7), (2, 9), (2, 7), (3, 4), (1, 9), (2, 4), (1, 7), (1, 4)]);
}

fn lane() -> impl Strategy<Value = LaneReport> {
    let count = || prop_oneof![0..1000_u64, Just(u64::MAX / 2), Just(u64::MAX)];
    (0..9_u32, proptest::collection::vec(count(), 4)).prop_map(|(source, counts)| LaneReport {
        source,
        fragments: counts[0],
        last: counts[1],
        crc_errors: counts[2],
        duplicate_segments: counts[3],
        ..LaneReport::default()
    })
}

proptest! {
    #[test]
    fn one_pass_gives_the_sums_of_a_pass_for_each_source(
        reports in proptest::collection::vec(proptest::collection::vec(lane(), 0..12), 1..5),
    ) {
        let sources: Vec<_> = [1, 3, 4, 7].map(SourceId::new).to_vec();
        let builders = (1..=reports.len() as u16).map(BuilderId::new).collect();
        let plan = RunPlan::new(RunNumber::new(1), Epoch::new(1), sources.clone(), builders);
        let mut roster = Roster::new(&plan);
        for (index, lanes) in reports.iter().enumerate() {
            let own = BuilderReport { lanes: lanes.clone(), ..BuilderReport::default() };
            let report = Report { report: Some(RoleReport::Builder(own)), live: None };
            let seat = Seat::Builder(BuilderIndex::new(index));
            prop_assert!(keep_report(&mut roster, seat, report, Instant::ZERO).is_ok());
        }
        let sums = lane_sums(&roster);
        for (index, id) in sources.into_iter().enumerate() {
            let lanes = || reports.iter().flatten().filter(|lane| lane.source == u32::from(id.number()));
            let sum = |of: fn(&LaneReport) -> u64| lanes().map(of).fold(0, u64::saturating_add);
            let found = &sums[SourceIndex::new(index)];
            prop_assert_eq!(found.fragments, sum(|lane| lane.fragments));
            prop_assert_eq!(found.last, sum(|lane| lane.last));
            prop_assert_eq!(found.crc_errors, sum(|lane| lane.crc_errors));
            prop_assert_eq!(found.duplicate_segments, sum(|lane| lane.duplicate_segments));
        }
    }
}
