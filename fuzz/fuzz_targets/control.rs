#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{control, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("control", control::seeds()), |data: &[u8]| control::check(data));
