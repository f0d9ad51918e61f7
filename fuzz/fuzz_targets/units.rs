#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{seeds::plant, units};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("units", units::seeds()), |data: &[u8]| units::check(data));
