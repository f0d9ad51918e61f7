use super::*;
use crate::{id::EventId, wire::control::MAX_EPISODES};

#[test]
fn findings_beyond_the_limit_are_counted() {
    let mut findings = Findings::default();
    findings.fail("first".to_owned());
    findings.fail("second".to_owned());
    (2..FINDINGS_LIMIT + 3).for_each(|number| findings.problem(number.to_string()));
    findings.loss("disk".to_owned(), 2);
    findings.loss("disk".to_owned(), 3);
    let sentences = findings.sentences();
    assert_eq!(findings.failure().as_deref(), Some("first"));
    assert_eq!(sentences.len(), FINDINGS_LIMIT + 2);
    assert_eq!(
        sentences[FINDINGS_LIMIT..],
        [
            "5 events lost: disk",
            "3 further problems are not listed here: correct those above first, then look at the log of the supervisor"
        ]
    );
}

#[test]
fn losses_beyond_the_limit_share_a_cause() {
    let mut findings = Findings::default();
    (0..FINDINGS_LIMIT + 5).for_each(|number| findings.loss(number.to_string(), 1));
    findings.remark("it was slow".to_owned());
    let further =
        findings.losses().find(|(cause, _)| *cause == "further causes, which the logs of the builders name");
    assert_eq!(further.map(|(_, events)| *events), Some(5));
    assert_eq!(findings.remarks(), ["it was slow"]);
}

#[test]
fn episodes_beyond_the_limit_are_not_kept() {
    let mut findings = Findings::default();
    let episode = |since| Episode { since: EventId::new(since), ..Episode::default() };
    let most = MAX_EPISODES as u64;
    (1..=most + 5).for_each(|since| findings.note_episode(episode(since)));
    findings.note_episode(Episode { until: Some(EventId::new(9)), ..episode(2) });
    assert_eq!(findings.episodes().len(), MAX_EPISODES);
    assert_eq!(
        (findings.episodes()[1].until, findings.episodes()[999].since.number()),
        (Some(EventId::new(9)), most)
    );
}

#[test]
fn changes_beyond_the_limit_are_not_kept() {
    let mut findings = Findings::default();
    let change = |from| OwingChange::exclude(SourceId::new(3), EventId::new(from), "no power");
    assert_eq!(findings.changes(), None);
    (1..=MAX_CHANGES as u64 + 5).for_each(|from| findings.note_exclusion(change(from)));
    assert_eq!(findings.exclusions().len(), MAX_CHANGES);
    findings.note_exclusion(change(999));
    let kept = findings.exclusions();
    assert_eq!((kept.len(), kept[998].from), (999, EventId::new(999)));
    let Some(Message::Changes(told)) = findings.changes() else { panic!("no message") };
    assert_eq!(told.changes.len(), 999);
}
