#![no_main]
#![allow(missing_docs)]

use evb_fuzz::lane_datagrams::{self, Step};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|steps: Vec<Step>| lane_datagrams::run(&steps));
