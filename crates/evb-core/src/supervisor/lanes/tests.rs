use super::*;

fn lane(source: u32, last: u64) -> LaneReport {
    LaneReport { source, last, last_by_ns: 10 * last, ..LaneReport::default() }
}

#[test]
fn later_reports_replace_the_sums_and_change_the_lanes_that_they_name() {
    let mut facts = LaneFacts::default();
    let source = |id: u32| (id < 9).then(|| SourceIndex::new(id as usize));
    facts.update(LaneReport { late: 2, ..lane(0, 6) }, &[lane(5, 4), lane(3, 2), lane(9, 8)], source);
    facts.update(LaneReport { late: 1, ..lane(0, 9) }, &[lane(3, 7), lane(4, 1)], source);
    let seen: Vec<_> =
        facts.lateness.iter().map(|(index, lane)| (index.get(), lane.last, lane.last_by_ns)).collect();
    assert_eq!(seen, [(3, 7, 70), (4, 1, 10), (5, 4, 40)]);
    assert_eq!((facts.sum.late, facts.sum.last), (1, 9));
}
