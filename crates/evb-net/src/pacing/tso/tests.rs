use evb_core::units::{Bytes, Rate};

use super::TsoTrain;

const UNLIMITED: Bytes = Bytes::mib(64);

#[test]
fn near_peers_get_the_longest_train_whatever_the_rate() {
    let slow = Rate::from_bits_per_second(10_000_000);
    assert_eq!(TsoTrain::LINUX.length(slow, UNLIMITED, UNLIMITED), Bytes::new(65_536));
}

#[test]
fn without_the_growth_a_train_is_a_millisecond_and_two_packets_at_least() {
    for rtt_log in [None, Some(0)] {
        let tamed = TsoTrain { rtt_log, ..TsoTrain::LINUX };
        let length = |bits| tamed.length(Rate::from_bits_per_second(bits), UNLIMITED, UNLIMITED).count();
        assert_eq!(length(100_000_000), 12_207);
        assert_eq!(length(1_000_000), 2_896);
        assert_eq!(length(10_000_000_000), 65_536);
    }
}

#[test]
fn what_is_not_written_cannot_be_in_a_train() {
    let rate = Rate::from_bits_per_second(1_000_000_000);
    let length = TsoTrain::LINUX.length(rate, Bytes::new(8_000), Bytes::new(4_000));
    assert_eq!(length, Bytes::new(12_000));
}
