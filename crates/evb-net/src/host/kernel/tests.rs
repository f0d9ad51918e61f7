use super::{is_at_least, release};

#[test]
fn releases_are_compared_by_their_first_two_numbers() {
    for release in ["6.12.0", "6.18.44-rc1", "7.0.1", "10.1", "6.12"] {
        assert!(is_at_least(release, (6, 12)), "{release}");
    }
    for release in ["6.11.99", "6.1.176-um", "5.15.0", "6", "", "next-6.18"] {
        assert!(!is_at_least(release, (6, 12)), "{release}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_running_kernel_is_asked() {
    assert!(!release().unwrap().is_empty());
}
