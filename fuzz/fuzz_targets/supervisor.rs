#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{seeds::plant, supervisor};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("supervisor", supervisor::seeds()), |data: &[u8]| supervisor::check(data));
