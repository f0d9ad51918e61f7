#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{config, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("config", config::seeds()), |data: &[u8]| config::check(data));
