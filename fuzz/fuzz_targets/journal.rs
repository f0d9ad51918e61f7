#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{journal, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("journal", journal::seeds()), |data: &[u8]| journal::check(data));
