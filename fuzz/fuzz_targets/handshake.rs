#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{handshake, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("handshake", handshake::seeds()), |data: &[u8]| handshake::check(data));
