#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{km3net, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("km3net", km3net::seeds()), |data: &[u8]| km3net::check(data));
