#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{capture, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("capture", capture::seeds()), |data: &[u8]| capture::check(data));
