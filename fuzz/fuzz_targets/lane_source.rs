#![no_main]
#![allow(missing_docs)]

use evb_fuzz::lane_source::{self, Step};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, Option<u8>, Vec<Step>)| {
    let (on_demand, bits, steps) = input;
    lane_source::run(on_demand, bits, &steps);
});
