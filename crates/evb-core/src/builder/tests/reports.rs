use super::bench::{Bench, at};
use crate::{
    index::LaneIndex,
    wire::control::{LaneReport, Report, RoleReport},
};

/// Returns the lanes and the sum of the next interim report.
fn interim(bench: &mut Bench) -> (Vec<LaneReport>, LaneReport) {
    match bench.core.report_so_far(at(9)) {
        Report { report: Some(RoleReport::Builder(own)), live: Some(_) } => (own.lanes, *own.sum.unwrap()),
        other => panic!("{other:?}"),
    }
}

/// Tests docs/reference/protocol.md RUN-37.
#[test]
fn an_interim_report_has_the_sum_of_the_lanes_and_those_that_changed() {
    let mut bench = Bench::new(3, 4);
    bench.assign(&[1, 2], at(0));
    for (lane, event) in [(0, 1), (2, 1), (1, 1), (0, 2), (1, 2)] {
        bench.send(LaneIndex::new(lane), event, b"data", at(2 + lane as u64));
    }
    let (lanes, sum) = interim(&mut bench);
    let changed: Vec<_> = lanes.iter().map(|lane| (lane.source, lane.last, lane.fragments)).collect();
    assert_eq!(changed, [(2, 1, 0)], "source 2 was the last of event 1");
    assert_eq!((sum.source, sum.fragments, sum.payload_bytes, sum.last), (0, 5, 20, 1));
    assert_eq!((interim(&mut bench).0, interim(&mut bench).1.fragments), (vec![], 5));
    bench.send(LaneIndex::new(2), 2, b"data", at(5));
    assert_eq!(interim(&mut bench).0.iter().map(|lane| lane.source).collect::<Vec<_>>(), [3]);
    bench.core.handle_registered(at(6), at(6));
    assert_eq!(interim(&mut bench).0.iter().map(|lane| lane.source).collect::<Vec<_>>(), [2, 3]);
    let report = bench.report();
    assert_eq!((report.lanes.len(), report.sum), (3, None), "the final report has all lanes");
}
