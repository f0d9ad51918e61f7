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
    let rate = |threads| {
        let rate = copy_rate(threads, Bytes::kib(256), Duration::from_millis(20)).unwrap();
        rate.bytes_per_second()
    };
    // The best of several attempts hardly depends on other programs.
    let best = |threads| (0..10).map(|_| rate(threads)).fold(0.0, f64::max);
    let mut arrays = Arrays::new(Bytes::kib(256));
    let counted = (0..10).map(|_| arrays.bandwidth(Kernel::Copy, Duration::from_millis(20)));
    let (one, counted) = (best(1), counted.fold(0.0, f64::max));
    assert!((0.5..2.0).contains(&(2.0 * one / counted)), "{one} B/s of copies, {counted} B/s counted twice");
    assert!((1e7..1e12).contains(&best(2)));
}
