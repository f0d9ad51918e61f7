use std::cell::RefCell;

use super::*;

fn problem(subject: &str, text: &str, remedy: &str) -> Problem {
    let [subject, text, remedy] = [subject, text, remedy].map(str::to_owned);
    Problem { severity: Severity::Bad, subject, text, remedy }
}

#[test]
fn a_problem_is_new_once_whatever_its_numbers_are() {
    let (mut known, start) = (KnownProblems::default(), Instant::now());
    let noted = RefCell::new(Vec::new());
    let mut new = |run: u128, at: u64, problems: &[(&str, &str, &str)]| {
        let problems = problems.iter().map(|(subject, text, remedy)| problem(subject, text, remedy));
        let look = Look { run: 1, run_id: RunId::new(run), problems: problems.collect() };
        let new = known.take(look, start + Duration::from_secs(at), |problem| {
            noted.borrow_mut().push(problem.subject.clone());
            run > 0
        });
        new.into_iter().map(|problem| format!("{}: {}", problem.subject, problem.text)).collect::<Vec<_>>()
    };
    let silent = ("source 3", "silent; 4 events", "check its host");
    assert_eq!(new(1, 0, &[silent]), ["source 3: silent; 4 events"]);
    let more = ("source 3", "silent; 9 events", "check its host");
    let other = ("source 3", "absent", "start it again");
    assert_eq!(new(1, 50, &[more, other]), ["source 3: absent"]);
    assert!(new(1, 100, &[more]).is_empty(), "it was seen 50 s ago");
    assert_eq!(new(1, 111, &[other, silent]), ["source 3: absent"], "gone for more than a minute");
    assert_eq!(new(1, 200, &[silent]), ["source 3: silent; 4 events"], "gone for 89 s");
    noted.take();
    assert!(new(2, 201, &[silent]).is_empty() && new(2, 202, &[silent]).is_empty());
    assert_eq!(noted.take(), ["source 3"], "once in the record of each run");
}
