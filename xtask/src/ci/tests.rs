use super::*;

const AMPLE: Duration = Duration::from_secs(60);

#[test]
fn steps_that_start_together_take_no_longer_than_the_longest() {
    let steps = [
        Step::new("x", 10, "sleep 1"),
        Step::new("y", 10, "sleep 1.5").beside(),
        Step::new("z", 10, "false").beside(),
        Step::new("after z", 10, "sleep 1").then().at_low_priority(),
    ];
    let started = Instant::now();
    let rows = run_together(&steps, AMPLE);
    assert!(started.elapsed() < Duration::from_millis(2400), "{:?}", started.elapsed());
    let ended: Vec<_> = rows.into_iter().map(|row| (row.name, row.ended)).collect();
    assert_eq!(
        ended,
        [
            ("x", Ended::Passed),
            ("y", Ended::Passed),
            ("z", Ended::Failed("exit code 1".into())),
            ("after z", Ended::Passed),
        ]
    );
}

#[test]
fn the_end_of_a_long_output_is_shown() {
    let said = (1..=100).map(|line| format!("{line}\n")).collect::<String>();
    let shown = end_of(&said);
    assert!(shown.starts_with("41\n") && shown.ends_with("\n100"), "{shown}");
}
