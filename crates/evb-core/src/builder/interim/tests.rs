use super::*;
use crate::units::Bytes;

fn lanes(lasts: impl Iterator<Item = u64>) -> Vec<Reception> {
    let lane = |(source, last)| {
        let counters = LaneReport { source, last, last_by_ns: 10 * last, late: 3, ..LaneReport::default() };
        Reception::new(LaneIndex::new(source as usize), Bytes::mib(1), counters)
    };
    (0..).zip(lasts).map(lane).collect()
}

#[test]
fn only_changed_lanes_are_told_and_all_again_after_a_connection_was_lost() {
    let mut told = Told::default();
    let lane = |source, last| LaneReport { source, last, last_by_ns: 10 * last, ..LaneReport::default() };
    assert_eq!(told.changes(&lanes([0, 5, 0, 2].into_iter())), [lane(1, 5), lane(3, 2)]);
    assert_eq!(told.changes(&lanes([0, 5, 0, 2].into_iter())), []);
    assert_eq!(told.changes(&lanes([1, 5, 0, 3].into_iter())), [lane(0, 1), lane(3, 3)]);
    told.forget();
    assert_eq!(told.changes(&lanes([1, 5, 0, 3].into_iter())), [lane(0, 1), lane(1, 5), lane(3, 3)]);
}

#[test]
fn with_more_changes_than_a_report_has_room_for_each_lane_gets_its_turn() {
    let (mut told, count) = (Told::default(), 2 * MAX_CHANGED + 7);
    let mut heard = vec![0; count];
    for round in 1..=6 {
        let changes = told.changes(&lanes((0..count).map(|_| round)));
        assert_eq!(changes.len(), MAX_CHANGED);
        changes.iter().for_each(|lane| heard[lane.source as usize] += 1);
    }
    let (least, most) = (heard.iter().min().unwrap(), heard.iter().max().unwrap());
    assert!(*least >= 2 && most - least <= 1, "{least} to {most}");
    let rest = (0..3).map(|_| told.changes(&lanes((0..count).map(|_| 6))).len()).sum::<usize>();
    assert_eq!((rest, told.changes(&lanes((0..count).map(|_| 6))).len()), (count - MAX_CHANGED, 0));
}
