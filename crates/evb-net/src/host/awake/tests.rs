use std::{fs::File, io::Read as _};

use super::{DEVICE, keep_awake};

/// Returns the longest wake-up latency of cores that is tolerated at the moment, in µs.
fn borne() -> i32 {
    let mut value = [0; 4];
    File::open(DEVICE).unwrap().read_exact(&mut value).unwrap();
    i32::from_ne_bytes(value)
}

#[test]
fn cores_are_kept_awake_as_long_as_it_is_held() {
    let awake = match keep_awake() {
        Ok(awake) => awake,
        Err(error) => return evb_needs::skip(&evb_needs::Missing::new(DEVICE).because(error)),
    };
    let second = keep_awake().unwrap();
    assert_eq!(borne(), 0);
    drop(awake);
    assert_eq!(borne(), 0, "the second holds on");
    drop(second);
}
