#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{board_datagrams, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("board_datagrams", board_datagrams::seeds()), |data: &[u8]| board_datagrams::check(data));
