use super::*;

const AMPLE: Duration = Duration::from_secs(60);

#[test]
fn a_step_passes_fails_or_runs_out_of_time() {
    assert_eq!(Step::new("x", 10, "true").run(AMPLE, false).0, Ended::Passed);
    assert_eq!(Step::new("x", 10, "false").run(AMPLE, false).0, Ended::Failed("exit code 1".into()));
    assert_eq!(Step::new("x", 1, "sleep 30").run(AMPLE, false).0, Ended::Failed("not done after 1 s".into()));
    assert_eq!(
        Step::new("x", 30, "sleep 30").run(Duration::from_secs(1), false).0,
        Ended::Failed("not done after 1 s".into())
    );
    assert!(matches!(Step::new("x", 10, "true").run(Duration::ZERO, false).0, Ended::Failed(_)));
    assert!(matches!(Step::new("x", 10, "no-such-program").run(AMPLE, false).0, Ended::Failed(_)));
}

#[test]
fn a_reason_skips() {
    let step = Step::new("x", 10, "false").unless(None).unless(Some("no root".into()));
    assert_eq!(step.run(AMPLE, false).0, Ended::Skipped("no root".into()));
}

/// Returns a step that ends with this exit code.
fn exits(code: u8) -> Step {
    Step { arguments: vec!["-c".to_owned(), format!("exit {code}")], ..Step::new("x", 10, "sh") }
}

#[test]
fn a_program_may_say_that_it_cannot_run_here_or_only_in_part() {
    assert!(matches!(exits(77).run(AMPLE, false).0, Ended::Skipped(_)));
    assert_eq!(exits(78).run(AMPLE, false).0, Ended::InPart);
    assert_eq!(exits(79).run(AMPLE, false).0, Ended::Failed("exit code 79".into()));
}

#[test]
fn what_is_required_fails_where_it_is_skipped() {
    let absent = Step::new("x", 10, "true").unless(Some("no prometheus here".into())).required();
    assert_eq!(
        absent.run(AMPLE, false).0,
        Ended::Failed("it must not be skipped here: no prometheus here".into())
    );
    let unable = exits(77).required();
    assert!(matches!(unable.run(AMPLE, false).0, Ended::Failed(_)));
    assert_eq!(Step::new("x", 10, "true").required().run(AMPLE, false).0, Ended::Passed);
}

#[test]
fn the_environment_reaches_the_command() {
    let step = Step::new("x", 10, "printenv EVB_STEP").environment("EVB_STEP", "1");
    assert_eq!(step.line(), "EVB_STEP=\"1\" printenv EVB_STEP");
    assert_eq!(step.run(AMPLE, false).0, Ended::Passed);
}

#[test]
fn what_a_step_says_can_be_kept() {
    let said = |line| Step::new("x", 10, line).run(AMPLE, false);
    assert_eq!(said("echo built"), (Ended::Passed, "built\n".into()));
    let (ended, errors) = said("ls no-such-file");
    assert!(matches!(ended, Ended::Failed(_)) && errors.contains("no-such-file"), "{errors}");
    let skipped = Step::new("x", 10, "true").unless(Some("no root".into())).run(AMPLE, false);
    assert_eq!(skipped, (Ended::Skipped("no root".into()), String::new()));
}

#[test]
fn a_humble_step_leaves_the_processor_to_others() {
    assert_eq!(Step::new("x", 10, "nice").at_low_priority().run(AMPLE, false).1, "19\n");
}

#[test]
fn a_noisy_step_is_repeated_once() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("mark");
    let second = format!("echo tried; test -e {0} || {{ touch {0}; false; }}", mark.display());
    let step = Step { arguments: vec!["-c".to_owned(), second], ..Step::new("x", 10, "sh") }.noisy();
    let (ended, said) = step.run(AMPLE, false);
    assert_eq!(ended, Ended::PassedAgain);
    assert_eq!(said.matches("tried\n").count(), 2, "{said}");
    assert_eq!(exits(1).noisy().run(AMPLE, false).0, Ended::Failed("exit code 1".into()));
}
