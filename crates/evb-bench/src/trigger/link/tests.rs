use super::{check, line_bits};

#[test]
fn an_announcement_takes_a_little_more_than_the_smallest_frame() {
    // 20 bytes, UDP 8, IP 20 or 40, Ethernet 14, and 24 of check sequence, preamble and gap.
    let bytes = |address: &str| line_bits(address.parse().unwrap()) / 8.0;
    assert_eq!((bytes("239.1.2.3"), bytes("ff15::1")), (86.0, 106.0));
}

#[test]
fn the_loopback_device_has_no_rate() {
    assert_eq!(check(1e9, "127.0.0.1:7002".parse().unwrap(), None), Ok(()));
    assert_eq!(check(1e9, "239.1.2.3:7002".parse().unwrap(), Some("lo")), Ok(()));
}
