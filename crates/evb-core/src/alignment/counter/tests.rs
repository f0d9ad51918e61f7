//! Counters out of range are refused.

use super::*;

#[test]
fn numbers_out_of_range_are_refused() {
    let good = TriggerCounter { bits: 16, first: CounterStart::At(0), step: 1 };
    assert_eq!(good.check(), Ok(()));
    for bits in [0, 7, 65] {
        assert_eq!(TriggerCounter { bits, ..good }.check(), Err(CounterError::Bits));
    }
    let first = CounterStart::At(65_536);
    assert_eq!(TriggerCounter { first, ..good }.check(), Err(CounterError::First));
    for step in [0, 258, u64::MAX] {
        assert_eq!(TriggerCounter { step, ..good }.check(), Err(CounterError::Step));
    }
    assert_eq!(TriggerCounter { bits: 64, step: u64::MAX / 256, ..good }.check(), Ok(()));
    assert!(CounterError::Step.to_string().contains("256 triggers"));
}
