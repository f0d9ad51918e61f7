use evb::{id::EventId, source::CounterStart};
use evb_core::fragment::Timestamp;

use super::*;

#[test]
fn gaps_repeats_and_wraps_are_told_apart() {
    let counter = TriggerCounter { first: CounterStart::Any, step: 2, ..TriggerCounter::new(8) };
    let mut counted = CountedFrames::new(Some(counter));
    // Two are missing, one comes twice, the counter wraps, and is reset.
    for (value, size) in
        [(240, 10), (246, 20), (248, 30), (248, 30), (250, 9), (252, 9), (254, 9), (0, 9), (2, 9), (200, 9)]
    {
        counted.add(&Fragment::new(EventId::new(value), Timestamp::new(0), vec![0; size]));
    }
    let mut text = Vec::new();
    counted.write(&mut text).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "frames    10, of 9 to 30 B, 14 B on average\n\
         counter   0 to 254; 2 values missing in 1 gap, 1 repeat, 1 step back\n"
    );
}
