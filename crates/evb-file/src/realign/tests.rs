use evb_core::{
    fragment::Timestamp,
    id::{BuilderId, Epoch, RunNumber},
};

use super::*;

const SOURCE: SourceId = SourceId::new(7);

/// Returns an event whose fragment of the source has the content of a trigger.
fn event(id: u64, content: u64, state: Alignment) -> Event {
    let mut event = Event::empty(EventId::new(id), RunNumber::new(1), Epoch::new(1), BuilderId::new(1));
    event.add_judged(SOURCE, Timestamp::new(content), state, vec![0; 10].into());
    event
}

fn slip(since: u64, until: Option<u64>, shift: i64) -> Episode {
    Episode {
        source: SOURCE,
        since: EventId::new(since),
        until: until.map(EventId::new),
        shift: Some(shift),
        misaligned: true,
        ..Episode::default()
    }
}

/// Returns each event's id with the content of the source's fragment, and the report.
fn repaired(
    episodes: &[Episode],
    events: impl IntoIterator<Item = Event>,
) -> (Vec<(u64, Option<u64>)>, RealignReport) {
    let (mut realigner, mut found) = (Realigner::new(episodes), Vec::new());
    let content =
        |event: Event| (event.id.number(), event.fragment(SOURCE).map(|part| part.timestamp.ticks()));
    for event in events {
        realigner.push(event);
        found.extend(std::iter::from_fn(|| realigner.next()).map(content));
        let most = episodes
            .iter()
            .filter_map(|one| one.shift)
            .map(i64::unsigned_abs)
            .max()
            .unwrap_or(0)
            .min(MAX_SHIFT);
        assert!(realigner.held.len() as u64 <= most && realigner.moving.len() as u64 <= 2 * most + 1);
    }
    realigner.end();
    found.extend(std::iter::from_fn(|| realigner.next()).map(content));
    (found, realigner.into_report())
}

#[test]
fn a_missed_trigger_leaves_one_event_without_a_fragment() {
    let events = (1..=9).map(|id| event(id, id + u64::from(id >= 4), Alignment::Disagrees));
    let (found, report) = repaired(&[slip(4, None, 1)], events);
    let expected: Vec<_> = (1..=9).map(|id| (id, Some(id).filter(|id| *id != 4))).collect();
    assert_eq!(found, expected);
    assert_eq!((report.moved, report.left_out, report.without), (5, 1, 1), "event 10 is in no file");
}

#[test]
fn a_doubled_trigger_is_left_out_once() {
    let events = (1..=9).map(|id| event(id, id - u64::from(id >= 4), Alignment::Disagrees));
    let (found, report) = repaired(&[slip(4, None, -1)], events);
    let expected: Vec<_> = (1..=9).map(|id| (id, Some(id).filter(|id| *id != 9))).collect();
    assert_eq!(found, expected);
    assert_eq!((report.moved, report.left_out, report.without), (5, 1, 1));
}

/// After an end that is known only roughly, the state of each fragment decides.
#[test]
fn a_slip_that_ended_moves_only_what_disagrees() {
    let of = |id| match (4..=6).contains(&id) {
        true => event(id, id + 1, Alignment::Disagrees),
        false => event(id, id, Alignment::Agrees),
    };
    let (found, report) = repaired(&[slip(4, Some(8), 1)], (1..=9).map(of));
    let expected: Vec<_> = (1..=9).map(|id| (id, Some(id).filter(|id| *id != 4))).collect();
    assert_eq!(found, expected);
    assert_eq!((report.moved, report.left_out), (2, 1), "event 7 had its own");
}

#[test]
fn of_two_slips_the_later_one_counts() {
    let content = |id| id + u64::from(id >= 3) + u64::from(id >= 6);
    let events = (1..=9).map(|id| event(id, content(id), Alignment::Disagrees));
    let (found, _) = repaired(&[slip(3, None, 1), slip(6, None, 2)], events);
    assert!(found.iter().all(|(id, content)| content.is_none_or(|content| content == *id)), "{found:?}");
    assert_eq!(found.iter().filter(|(_, content)| content.is_none()).count(), 2);
}

#[test]
fn what_was_moved_stays_and_what_is_no_slip_is_told() {
    let odd = Episode { shift: None, kind: "foreign".to_owned(), ..slip(2, None, 0) };
    let far = Episode { source: SourceId::new(8), ..slip(2, None, i64::MIN) };
    let right = Episode { misaligned: false, ..slip(1, None, 3) };
    let events = (1..=5).map(|id| event(id, id, Alignment::Moved));
    let (found, report) = repaired(&[right, odd.clone(), slip(3, None, 2), far.clone()], events);
    assert!(found.iter().all(|(id, content)| Some(*id) == *content), "{found:?}");
    assert_eq!((report.slips, report.others, report.moved), (vec![slip(3, None, 2)], vec![odd, far], 0));
}
