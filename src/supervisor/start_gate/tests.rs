use tokio::sync::oneshot::error::TryRecvError;

use super::*;

#[test]
fn questions_beyond_the_limit_are_not_asked() {
    let (gate, mut questions) = StartGate::new();
    let begun = Begin { run: 7, ..Begin::default() };
    let mut asked: Vec<_> = (0..QUESTIONS).map(|_| ask(Some(&gate), &begun)).collect();
    assert!(asked.iter_mut().all(|answer| answer.try_recv() == Err(TryRecvError::Empty)));
    assert_eq!(ask(Some(&gate), &begun).try_recv(), Err(TryRecvError::Closed), "the run begins");
    let first = questions.try_recv().unwrap();
    assert_eq!(first.run, RunNumber::new(7));
    first.answer(Err("no beam".to_owned()));
    assert_eq!(asked[0].try_recv(), Ok(Err("no beam".to_owned())));
    assert_eq!(ask(None, &begun).try_recv(), Err(TryRecvError::Closed));
}
