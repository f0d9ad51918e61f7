#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{seeds::plant, stream_frames};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("stream_frames", stream_frames::seeds()), |data: &[u8]| stream_frames::check(data));
