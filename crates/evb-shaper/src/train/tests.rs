use evb_core::units::{Bytes, Rate};

use super::longest_train;

#[test]
fn trains_are_short_on_slow_links_and_grow_with_fast_ones() {
    for (gigabits, bytes) in [(0.025, 8192), (1.0, 8192), (10.0, 80_000), (100.0, 800_000)] {
        let link = Rate::from_bits_per_second((gigabits * 1e9) as u64);
        assert_eq!(longest_train(link), Bytes::new(bytes), "{gigabits} Gbit/s");
    }
}
