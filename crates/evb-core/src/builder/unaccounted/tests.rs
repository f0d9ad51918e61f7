use proptest::prelude::*;

use super::{NOWHERE, Unaccounted};
use crate::{
    event::{Cause, MissingSource},
    id::{EventId, SourceId},
    index::LaneIndex,
    rng::Rng,
    set::MAX_SOURCES,
    wire::{
        control::{
            Completions, Control, Exception, MAX_CAUSE, MAX_EXCEPTIONS, MAX_MESSAGE, Message, Outcome,
        },
        encoding::Encoding,
    },
};

fn exception(event: u64) -> Exception {
    Exception { event, ..Exception::default() }
}

fn ids(message: &Completions) -> Vec<u64> {
    let complete = message.events().map(EventId::number);
    complete.chain(message.exceptions.iter().map(|exception| exception.event)).collect()
}

#[test]
fn no_message_is_too_long_even_if_thousands_of_sources_are_missing() {
    let mut unaccounted = Unaccounted::default();
    // The longest encodings: ids of three bytes, characters of four, and large steps of event ids.
    let missing: Vec<u32> = (0..MAX_SOURCES as u32).map(|source| 65_535 - source).collect();
    let cause = "\u{1f600}".repeat(MAX_CAUSE);
    let complete = |event: u64| if event.is_multiple_of(2) { event } else { u64::MAX / 2 - event };
    (1..=1 << 16)
        .for_each(|event| unaccounted.complete(EventId::new(complete(event)), &[], core::iter::empty()));
    for event in 1..=MAX_EXCEPTIONS as u64 {
        let exception = Exception {
            event: u64::MAX - event,
            outcome: Outcome::Incomplete,
            missing: missing.clone(),
            cause: cause.clone(),
            missing_causes: vec![u8::MAX.into(); missing.len()],
        };
        unaccounted.except(exception, core::iter::empty());
    }
    let (mut longest, mut exceptions) = (0, 0);
    while let Some(message) = unaccounted.next_message() {
        exceptions += message.exceptions.len();
        let message = Control { message: Some(Message::Completions(message)) };
        longest = longest.max(message.encoded_len());
    }
    assert_eq!(exceptions, MAX_EXCEPTIONS);
    assert!((MAX_MESSAGE / 2..MAX_MESSAGE).contains(&longest), "{longest}");
}

#[test]
fn complete_events_go_before_exceptions_and_keep_their_numbers() {
    let mut unaccounted = Unaccounted::default();
    unaccounted.except(exception(1), [(0, 10)].into_iter());
    unaccounted.complete(EventId::new(2), &[], [(0, 20), (1, 5)].into_iter());
    let first = unaccounted.next_message().unwrap();
    assert_eq!((first.before, ids(&first)), (0, vec![2, 1]));
    assert_eq!(unaccounted.next_message(), None);
    unaccounted.complete(EventId::new(3), &[], [(1, 9)].into_iter());
    let second = unaccounted.next_message().unwrap();
    assert_eq!((second.before, ids(&second)), (2, vec![3]));
    let mut settled = Vec::new();
    assert!(unaccounted.handle_accounted(1, |lane: LaneIndex, start| settled.push((lane.get(), start))));
    assert_eq!(settled, [(0, 20), (1, 5)]);
    // A number lower than an earlier one has no effect.
    assert!(unaccounted.handle_accounted(0, |_, _| panic!("settled twice")));
    assert!(!unaccounted.handle_accounted(4, |_, _| panic!("never completed")));
    unaccounted.void(LaneIndex::new(0));
    assert!(unaccounted.handle_accounted(3, |lane: LaneIndex, start| settled.push((lane.get(), start))));
    assert_eq!(settled[2..], [(0, NOWHERE), (1, 9)]);
    assert!(unaccounted.is_empty());
}

#[test]
fn many_exceptions_need_more_messages() {
    let mut unaccounted = Unaccounted::default();
    for event in 1..=2 * MAX_EXCEPTIONS as u64 + 1 {
        unaccounted.except(exception(event), core::iter::empty());
    }
    let sizes: Vec<_> =
        core::iter::from_fn(|| unaccounted.next_message()).map(|message| message.exceptions.len()).collect();
    assert_eq!(sizes, [MAX_EXCEPTIONS, MAX_EXCEPTIONS, 1]);
}

proptest! {
    /// The ledger skips completions that it has, as docs/reference/protocol.md RUN-20 requires. So
    /// the ledger gets each event once, whichever connections break.
    #[test]
    fn a_ledger_gets_every_event_once(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let mut unaccounted = Unaccounted::default();
        let (mut next, mut ledger, mut settled) = (1, Vec::new(), Vec::new());
        for _ in 0..400 {
            match rng.below(8) {
                0..3 => {
                    unaccounted.complete(EventId::new(next), &[], [(0, next)].into_iter());
                    next += 1;
                }
                3 => {
                    unaccounted.except(exception(next), [(0, next)].into_iter());
                    next += 1;
                }
                4..6 => {
                    if let Some(message) = unaccounted.next_message() {
                        let known = ledger.len() as u64;
                        prop_assert!(message.before <= known, "a gap: {} after {known}", message.before);
                        ledger.extend(ids(&message).into_iter().skip((known - message.before) as usize));
                    }
                }
                6 => unaccounted.say_again(),
                _ => {
                    let accounted = rng.below(ledger.len() as u64 + 1);
                    let is_known = unaccounted.handle_accounted(accounted, |_, start| settled.push(start));
                    prop_assert!(is_known);
                }
            }
        }
        let mut all = ledger.clone();
        all.extend(unaccounted.events().into_iter().map(EventId::number).filter(|event| !ledger.contains(event)));
        all.sort_unstable();
        prop_assert!(all.into_iter().eq(1..next));
        prop_assert_eq!(&settled[..], &ledger[..settled.len()]);
    }
}

/// Equal absences of events in a row are one entry, and each stays with its event when the ledger
/// has some of the events already.
#[test]
fn absences_stay_with_their_events() {
    let absent = |ids: &[u16]| -> Vec<MissingSource> {
        ids.iter().map(|id| MissingSource::new(SourceId::new(*id), Cause::Excluded)).collect()
    };
    let of_event = |event: u64| match event {
        3..=5 => absent(&[7]),
        6 => absent(&[7, 9]),
        _ => absent(&[]),
    };
    let mut unaccounted = Unaccounted::default();
    for event in 1..=8 {
        unaccounted.complete(EventId::new(event), &of_event(event), core::iter::empty());
    }
    let message = unaccounted.next_message().unwrap();
    assert_eq!(message.absences.iter().map(|absence| absence.events).collect::<Vec<_>>(), [2, 3, 1, 2]);
    for known in 0..=8 {
        let rest = message.clone().without(known);
        rest.check().unwrap();
        let listed = rest.events_with_absences().map(|(event, absence)| {
            let absence = absence.map(|number| &rest.absences[number]);
            let sources = absence.into_iter().flat_map(|absence| absence.absent_sources());
            (
                event.number(),
                sources.map(|(source, cause)| MissingSource::new(source, cause)).collect::<Vec<_>>(),
            )
        });
        let expected = (1 + known as u64..=8).map(|event| (event, of_event(event)));
        assert!(listed.eq(expected), "without {known}");
    }
    let mut more = message;
    more.absences[0].events = 9;
    assert!(more.check().is_err(), "absences of more events than there are");
}
