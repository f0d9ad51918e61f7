#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{lane_stream, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("lane_stream", lane_stream::seeds()), |data: &[u8]| lane_stream::check(data));
