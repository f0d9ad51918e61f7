use super::timespec_nanos;

#[test]
fn a_time_stamp_is_seconds_and_nanoseconds() {
    let mut bytes = [0; 2 * size_of::<std::ffi::c_long>()];
    let half = size_of::<std::ffi::c_long>();
    bytes[..half].copy_from_slice(&(3 as std::ffi::c_long).to_ne_bytes());
    bytes[half..].copy_from_slice(&(7 as std::ffi::c_long).to_ne_bytes());
    assert_eq!(timespec_nanos(&bytes), Some(3_000_000_007));
    assert_eq!(timespec_nanos(&bytes[..half + 1]), None);
    bytes[..half].copy_from_slice(&(-1 as std::ffi::c_long).to_ne_bytes());
    assert_eq!(timespec_nanos(&bytes), None);
}
