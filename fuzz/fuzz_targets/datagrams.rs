#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{datagrams, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("datagrams", datagrams::seeds()), |data: &[u8]| datagrams::check(data));
