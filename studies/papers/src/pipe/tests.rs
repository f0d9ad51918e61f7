use lab_base::report::Report;

use super::{CASES, Row, judge};

fn rows(fast: f64, equal: f64, drops: u64) -> Vec<Row> {
    let row = |(name, mbit, drops)| Row { name, mbits: vec![mbit; 3], drops };
    [(CASES[0].name, fast, 7), (CASES[1].name, equal, drops), (CASES[2].name, 17.0, 0)].map(row).into()
}

#[test]
fn the_order_of_the_hosts_is_judged() {
    let failed = |rows: &[Row]| {
        let mut report = Report::bare("pipe");
        judge(rows, &mut report);
        report.failed()
    };
    assert!(failed(&rows(12.0, 18.0, 0)).is_empty());
    assert_eq!(failed(&rows(18.5, 18.0, 0)).len(), 2);
    assert_eq!(failed(&rows(12.0, 18.0, 3)), ["equal-rate host: packets dropped: 3"]);
    // A single case is judged alone.
    assert!(failed(&rows(12.0, 18.0, 0)[..1]).is_empty());
}
