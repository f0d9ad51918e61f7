use evb_core::units::Rate;

use super::{
    Coalescing, Feature, Line, coalescing, driver, feature, line_of, offloads, rings, set_coalescing, string,
    with_coalescing,
};

#[test]
fn an_unknown_speed_is_none() {
    let fast = Line { rate: Some(Rate::from_bits_per_second(10_000_000_000)), full_duplex: Some(true) };
    assert_eq!(line_of(10_000, 1), fast);
    assert_eq!(line_of(100, 0).full_duplex, Some(false));
    let unknown = Line { rate: None, full_duplex: None };
    assert_eq!((line_of(u32::MAX, 0xff), line_of(0, 0xff)), (unknown, unknown));
}

#[test]
fn features_are_bits_of_blocks() {
    // Feature 33 is the second bit of the second block.
    let block = |available, active, never| [0, 0, 0, 0, available, 0, active, never];
    assert_eq!(feature(&block(2, 2, 0), 33), Some(Feature { on: true, fixed: false }));
    assert_eq!(feature(&block(2, 0, 0), 33), Some(Feature { on: false, fixed: false }));
    assert_eq!(feature(&block(0, 2, 0), 33), Some(Feature { on: true, fixed: true }));
    assert_eq!(feature(&block(2, 2, 2), 33), Some(Feature { on: true, fixed: true }));
    assert_eq!(feature(&block(2, 2, 2), 64), None);
}

#[test]
fn a_string_ends_at_its_zero() {
    let words = [u32::from_ne_bytes(*b"virt"), u32::from_ne_bytes(*b"io\0x"), u32::from_ne_bytes(*b"nets")];
    assert_eq!(string(&words), "virtio");
}

#[test]
fn the_loopback_has_offloads_and_no_rings() {
    let offloads = offloads("lo").expect("every kernel has them");
    assert!(offloads.gso.on && offloads.tso.on, "{offloads:?}");
    let error = rings("lo").expect_err("no hardware").to_string();
    assert_eq!(
        error,
        "this device's driver does not tell: evb works without it, and nothing needs to be done"
    );
}

#[test]
fn no_such_device_is_said() {
    assert!(driver("no-such-dev").expect_err("none").to_string().contains("No such device"));
    assert!(driver("a-name-that-no-device-can-have").is_err());
}

#[test]
fn other_settings_of_coalescing_stay_as_they_are() {
    let present: Vec<u32> = (0..1024).collect();
    let wanted = Coalescing {
        receive_micros: 1000,
        receive_packets: 2,
        send_micros: 996,
        send_packets: 6,
        adaptive_receive: true,
        adaptive_send: false,
    };
    let request = with_coalescing(&present, wanted);
    // The words are laid out as in `struct ethtool_coalesce`: command, then receive and send times
    // and packets at 1, 2, 5 and 6.
    assert_eq!(request[..7], [0x0f, 1000, 2, 3, 4, 996, 6]);
    assert_eq!((request.len(), &request[9..13]), (23, &[9, 1, 0, 12][..]));
    assert_eq!(with_coalescing(&[], wanted).len(), 23);
    let error = coalescing("lo").expect_err("no hardware").to_string();
    assert_eq!(
        error,
        "this device's driver does not tell: evb works without it, and nothing needs to be done"
    );
    assert_eq!(set_coalescing("lo", wanted).expect_err("no hardware").to_string(), error);
}
