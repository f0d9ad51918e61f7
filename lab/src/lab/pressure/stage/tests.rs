use super::*;

#[test]
fn stages_share_the_run() {
    let run = Duration::from_secs(600);
    for stages in [&ALL[..], &SHORT, &SINKS] {
        let sum: Duration = stages.iter().map(|stage| stage.lasts(stages, run)).sum();
        assert!(sum.abs_diff(run) < Duration::from_millis(1), "{sum:?}");
        // Each stage needs an earlier undisturbed stage with the same load, with which it is
        // compared.
        for (place, stage) in stages.iter().enumerate() {
            let is_calm = |other: &Stage| other.pressure == Pressure::Nothing && other.load == stage.load;
            assert!(stages[..=place].iter().any(is_calm), "{}", stage.name);
        }
    }
    let frozen = ALL.iter().find(|stage| stage.pressure == Pressure::FrozenSource).unwrap();
    assert_eq!(frozen.lasts(&ALL, run), run / 2);
}
