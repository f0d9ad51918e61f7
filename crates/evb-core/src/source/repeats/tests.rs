use super::*;

fn seen(event: u64, timestamp: u64, payload: &[u8]) -> Seen {
    Seen::of(&Fragment::new(EventId::new(event), Timestamp::new(timestamp), payload.to_vec()))
}

/// Returns the fragment that readout makes for an event.
fn usual(event: u64) -> Seen {
    seen(event, 10 * event, &event.to_le_bytes())
}

/// Remembers the usual fragments of these events.
fn after(events: impl IntoIterator<Item = u64>) -> Repeats {
    let mut repeats = Repeats::default();
    events.into_iter().for_each(|event| repeats.remember(usual(event)));
    repeats
}

#[test]
fn content_and_timestamp_decide_if_a_fragment_is_a_repeat() {
    let repeats = after(1..=3);
    assert_eq!(repeats.compare(&usual(2)), Compared::Same);
    let other = Compared::Other(Timestamp::new(20));
    assert_eq!(repeats.compare(&seen(2, 20, b"another")), other);
    assert_eq!(repeats.compare(&seen(2, 21, &2u64.to_le_bytes())), other);
    assert_eq!(repeats.compare(&usual(4)), Compared::New);
    assert_eq!(Repeats::default().compare(&usual(1)), Compared::New);
}

#[test]
fn the_last_fragments_are_remembered_whatever_their_ids() {
    let count = u64::from(REMEMBERED);
    // Ids in order, with gaps, backwards, and with the same last bits.
    let orders: [fn(u64) -> u64; 4] = [|n| n, |n| 7 * n, |n| 300_000 - n, |n| n * u64::from(REMEMBERED)];
    for id in orders {
        let repeats = after((1..=count + 10).map(id));
        for n in [11, 12, 500, count, count + 10] {
            assert_eq!(repeats.compare(&usual(id(n))), Compared::Same, "fragment {n}");
        }
        for n in [1, 2, 10] {
            assert_ne!(repeats.compare(&usual(id(n))), Compared::Same, "fragment {n}");
        }
    }
}

#[test]
fn what_is_older_than_the_memory_is_not_compared() {
    let repeats = after(1..=u64::from(REMEMBERED) + 10);
    assert_eq!(repeats.compare(&usual(10)), Compared::Forgotten);
    assert_eq!(repeats.compare(&usual(11)), Compared::Same);
    // An event without a fragment, and not older than the memory.
    let gap = after((1..=100_000).filter(|event| *event != 90_000));
    assert_eq!(gap.compare(&usual(90_000)), Compared::New);
}

#[test]
fn the_number_of_fragments_may_exceed_32_bits() {
    let mut repeats = Repeats { count: u32::MAX - 3, ..Repeats::default() };
    repeats.ring = vec![RepeatPlace { seen: usual(0), older: 0 }; REMEMBERED as usize];
    (1..=8).for_each(|event| repeats.remember(usual(event)));
    (1..=8).for_each(|event| assert_eq!(repeats.compare(&usual(event)), Compared::Same, "event {event}"));
}
