use std::time::Duration;

use evb_core::units::Bytes;

use super::{Arrays, Kernel, copy_rate};

#[test]
fn kernels_do_what_stream_defines() {
    let mut arrays = Arrays::new(Bytes::kib(64));
    arrays.pass(Kernel::Copy);
    assert_eq!(arrays.a[1], arrays.b[1]);
    arrays.pass(Kernel::Triad);
    assert_eq!(arrays.a[1], arrays.b[1] + 3.0 * arrays.c[1]);
    assert_eq!((Kernel::Copy.arrays(), Kernel::Triad.arrays()), (2, 3));
}

#[test]
fn passes_are_made_and_take_time() {
    // A loop that the compiler removed would reach more than a terabyte per second.
    let mut arrays = Arrays::new(Bytes::mib(4));
    for kernel in [Kernel::Copy, Kernel::Triad] {
        let bandwidth = arrays.bandwidth(kernel, Duration::from_millis(20));
        assert!((1e7..1e12).contains(&bandwidth), "{kernel}: {bandwidth} B/s");
    }
}

#[test]
fn a_rate_of_copies_counts_each_byte_once_in_every_thread() {
    let time = Duration::from_millis(10);
    let rate = |threads| copy_rate(threads, Bytes::kib(256), time).unwrap().bytes_per_second();
    let mut arrays = Arrays::new(Bytes::kib(256));
    // The median of many pairs hardly depends on other programs.
    let mut ratios: Vec<f64> =
        (0..31).map(|_| 2.0 * rate(1) / arrays.bandwidth(Kernel::Copy, time)).collect();
    ratios.sort_by(f64::total_cmp);
    assert!((0.6..1.7).contains(&ratios[15]), "copies to bytes that are counted twice: {ratios:?}");
    assert!((1e7..1e12).contains(&rate(2)));
}
