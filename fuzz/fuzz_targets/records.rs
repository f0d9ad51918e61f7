#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{records, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("records", records::seeds()), |data: &[u8]| records::check(data));
