#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{checksum, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("checksum", checksum::seeds()), |data: &[u8]| checksum::check(data));
