use super::*;

#[test]
fn further_causes_of_dead_time_are_counted_together() {
    let mut totals = Totals::default();
    for run in 0..3 {
        let causes: Vec<_> = (0..500)
            .map(|number| DeadTimeCause { cause: format!("run {run}, cause {number}"), inhibited: 2 })
            .collect();
        totals.add(&EventCounts::default(), &causes, 0);
        assert_eq!(totals.dead_time.len(), CAUSES + 1);
    }
    assert_eq!(totals.dead_time.values().sum::<u64>(), 3000, "none is forgotten");
    assert_eq!(totals.dead_time["other causes"], 3000 - 2 * CAUSES as u64);
}
