use super::*;

fn sources(of: &[usize]) -> SourceSet {
    of.iter().copied().collect()
}

#[test]
fn refused_fragments_are_found_by_their_event_until_their_source_restarts() {
    let mut refusals = Refusals::default();
    for (event, source) in [(7, 0), (7, 2), (8, 2)] {
        refusals.note(EventId::new(event), source);
    }
    assert_eq!(refusals.of(EventId::new(7)), sources(&[0, 2]));
    refusals.forget(2);
    assert_eq!(refusals.of(EventId::new(7)), sources(&[0]));
    assert_eq!(refusals.of(EventId::new(8)), sources(&[]));
}

#[test]
fn the_oldest_refusals_are_forgotten() {
    let mut refusals = Refusals::default();
    (1..=REMEMBERED as u64 + 1).for_each(|event| refusals.note(EventId::new(event), 0));
    assert_eq!(refusals.of(EventId::new(1)), sources(&[]));
    assert_eq!(refusals.of(EventId::new(2)), sources(&[0]));
    assert_eq!(refusals.0.len(), REMEMBERED);
}
