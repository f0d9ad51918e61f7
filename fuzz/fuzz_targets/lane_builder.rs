#![no_main]
#![allow(missing_docs)]

use evb_fuzz::lane_builder::{self, Step};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, Vec<Step>)| {
    let (turns, steps) = input;
    lane_builder::run(turns, &steps);
});
