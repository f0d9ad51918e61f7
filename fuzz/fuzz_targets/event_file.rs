#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{event_file, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("event_file", event_file::seeds()), |data: &[u8]| event_file::check(data));
