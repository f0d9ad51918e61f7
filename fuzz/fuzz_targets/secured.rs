#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{secured, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("secured", secured::seeds()), |data: &[u8]| secured::check(data));
