#![no_main]
#![allow(missing_docs)]

use evb_fuzz::alignment::{self, Setting, Step};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Setting, Vec<Step>)| {
    let (setting, steps) = input;
    alignment::run(&setting, &steps);
});
