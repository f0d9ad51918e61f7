#![no_main]
#![allow(missing_docs)]

use evb_fuzz::{acknowledgements, seeds::plant};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: plant("acknowledgements", acknowledgements::seeds()), |data: &[u8]| {
    acknowledgements::check(data);
});
