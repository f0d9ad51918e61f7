use super::{addresses, is_own};

#[test]
#[cfg(target_os = "linux")]
fn every_address_of_a_device_that_is_up_is_own_and_a_foreign_one_is_not() {
    let devices = crate::host::link::links().expect("netlink works");
    let up = |index: u32| devices.iter().any(|link| link.index == index && link.up);
    let found = addresses().expect("netlink works");
    for address in found.iter().filter(|address| up(address.device)) {
        assert!(is_own(address.address), "{address:?}");
    }
    for own in ["127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"] {
        assert!(is_own(own.parse().expect("an address")), "{own}");
    }
    // These addresses are reserved for documentation, and seldom used (RFC 5737, RFC 3849).
    for foreign in ["203.0.113.7", "2001:db8::7"] {
        assert!(!is_own(foreign.parse().expect("an address")), "{foreign}");
    }
}
