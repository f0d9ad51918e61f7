#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{seeds::plant, triggers};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("triggers", triggers::seeds()), |data: &[u8]| triggers::check(data));
