use super::*;

fn problem(subject: &str, text: &str, remedy: &str) -> Problem {
    let [subject, text, remedy] = [subject, text, remedy].map(str::to_owned);
    Problem { severity: Severity::Bad, subject, text, remedy }
}

#[test]
fn a_problem_is_new_once_whatever_its_numbers_are() {
    let (mut known, start) = (KnownProblems::default(), Instant::now());
    let mut new = |at: u64, problems: &[(&str, &str, &str)]| {
        let problems = problems.iter().map(|(subject, text, remedy)| problem(subject, text, remedy));
        let new = known.take(problems.collect(), start + Duration::from_secs(at));
        new.into_iter().map(|problem| format!("{}: {}", problem.subject, problem.text)).collect::<Vec<_>>()
    };
    let silent = ("source 3", "silent; 4 events", "check its host");
    assert_eq!(new(0, &[silent]), ["source 3: silent; 4 events"]);
    let more = ("source 3", "silent; 9 events", "check its host");
    let other = ("source 3", "absent", "start it again");
    assert_eq!(new(50, &[more, other]), ["source 3: absent"]);
    assert!(new(100, &[more]).is_empty(), "it was seen 50 s ago");
    assert_eq!(new(111, &[other, silent]), ["source 3: absent"], "gone for more than a minute");
    assert_eq!(new(200, &[silent]), ["source 3: silent; 4 events"], "gone for 89 s");
}
