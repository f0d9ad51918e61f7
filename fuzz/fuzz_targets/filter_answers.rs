#![no_main]
#![allow(missing_docs)]

use evb_fuzz::filter_answers::{self, Step};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|steps: Vec<Step>| filter_answers::run(steps));
