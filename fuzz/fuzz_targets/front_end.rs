#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{front_end, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("front_end", front_end::seeds()), |data: &[u8]| front_end::check(data));
