use super::Scoreboard;

#[test]
fn reports_join_and_leave_gaps() {
    let mut board = Scoreboard::default();
    // Segments 1, 3, 4 and 7 of 100 bytes arrived beyond the gap at 0.
    for segment in [3, 1, 7, 4] {
        board.add(segment * 100, segment * 100 + 100);
    }
    // 800 to 1000 is beyond all reports; the gaps at 0, 200, 500 and 600 are lost.
    assert_eq!(board.under_way(0, 1000), 200);
    let mut gaps = Vec::new();
    while let Some((begin, length)) = board.next_gap(0, 100) {
        gaps.push((begin, length));
        board.handle_filled(begin + length);
    }
    assert_eq!(gaps, [(0, 100), (200, 100), (500, 100), (600, 100)]);
    // The four gaps are under way again.
    assert_eq!(board.under_way(0, 1000), 600);
    board.acknowledged(500);
    assert_eq!(board.under_way(500, 1000), 400);
    board.clear();
    assert_eq!((board.under_way(500, 1000), board.next_gap(500, 100)), (500, None));
}

#[test]
fn a_report_that_overlaps_others_joins_them() {
    let mut board = Scoreboard::default();
    board.add(100, 200);
    board.add(300, 400);
    board.add(150, 350);
    assert_eq!(board.next_gap(0, 1000), Some((0, 100)));
    board.handle_filled(100);
    assert_eq!(board.next_gap(0, 1000), None);
    assert_eq!(board.under_way(0, 400), 100);
}
