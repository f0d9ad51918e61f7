#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{probes, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("probes", probes::seeds()), |data: &[u8]| probes::check(data));
