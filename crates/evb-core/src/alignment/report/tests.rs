//! Tests of clocks, relations and readings as messages.

use proptest::prelude::*;

use super::*;
use crate::alignment::Guard;

fn clock(bits: u8) -> DetectorClock {
    DetectorClock::new(Frequency::from_hertz(40.079e6).unwrap(), ClockWrap::Bits(bits))
}

#[test]
fn clocks_arrive_as_they_were_declared() {
    let orbit = DetectorClock {
        wrap: ClockWrap::Ticks(3564),
        tolerance: Duration::from_nanos(40),
        accuracy: 0.5,
        ..clock(24)
    };
    let all = [(SourceId::new(7), orbit), (SourceId::new(2), clock(24))];
    let begin = Begin {
        clocks: all.iter().map(|(source, clock)| message_of(*source, clock)).collect(),
        lead: 8,
        host_times: true,
        ..Begin::default()
    };
    let clocks = GuardedClocks::of(&begin);
    assert_eq!(clocks.clocks, [all[1], all[0]]);
    assert_eq!(clocks.lead_source(), Some(SourceId::new(7)));
    assert!(clocks.can_compare() && clocks.host_times);
}

#[test]
fn a_clock_that_cannot_be_is_left_out() {
    let good = message_of(SourceId::new(1), &clock(24));
    for bad in [Clock { bits: 65, ..good }, Clock { rate_uhz: 0, ..good }, Clock { source: 70_000, ..good }] {
        let begin = Begin { clocks: vec![bad, Clock { source: 2, ..good }], ..Begin::default() };
        let clocks = GuardedClocks::of(&begin);
        assert_eq!((clocks.clocks.len(), clocks.can_compare()), (1, false), "{bad:?}");
    }
}

#[test]
fn relations_arrive_as_they_were_sent_unless_a_number_cannot_be() {
    let clocks = GuardedClocks {
        clocks: (1..=3).map(|id| (SourceId::new(id), clock(40))).collect(),
        lead: None,
        host_times: true,
    };
    let mut guard = Guard::new(&clocks.only_clocks());
    for event in 1..=100 {
        let at = Instant::from_nanos(event * 1_000_000);
        guard.observe(EventId::new(event), at, &[Some(event * 40_079), Some(event * 40_080), None]);
    }
    let survey = guard.survey();
    let message = survey.message();
    let back = survey_of(&message, &clocks).unwrap();
    assert_eq!((back.message(), back.lead, back.now), (message.clone(), survey.lead, survey.now));
    for bits in [f64::NAN, f64::INFINITY, -1.0] {
        let mut bad = message.clone();
        bad.clocks[1].bound = bits.to_bits();
        assert!(survey_of(&bad, &clocks).is_err(), "{bits}");
    }
    let short = ClockRelations { clocks: Vec::new(), ..message };
    assert!(survey_of(&short, &clocks).is_err());
}

proptest! {
    #[test]
    fn readings_arrive_as_they_were_sent(list in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..300)) {
        let message = readings_message(5, list.iter().copied());
        let back: Vec<_> = readings_of(&message).unwrap().collect();
        prop_assert_eq!(back.as_slice(), &list[..list.len().min(MOST_READINGS)]);
    }
}

#[test]
fn clocks_that_are_there_go_before_adopted_ones() {
    let clock = |bits| DetectorClock::new(Frequency::from_hertz(1e6).unwrap(), ClockWrap::Bits(bits));
    let of = |number, bits| (SourceId::new(number), clock(bits));
    let lead = Some(ClockIndex::new(1));
    let mut clocks = GuardedClocks { clocks: vec![of(2, 40), of(5, 41)], lead, host_times: false };
    clocks.adopt([of(7, 30), of(5, 31), of(1, 32)]);
    assert_eq!(clocks.clocks, [of(1, 32), of(2, 40), of(5, 41), of(7, 30)]);
    assert_eq!(clocks.lead_source(), Some(SourceId::new(5)), "the lead stays with its source");
}
