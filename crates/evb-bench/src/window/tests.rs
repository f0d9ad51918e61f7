use std::time::{Duration, Instant};

use super::Window;

#[test]
fn a_window_opens_after_the_warm_up_and_ends_with_an_arrival() {
    let (begin, ms) = (Instant::now(), Duration::from_millis);
    let mut window = Window::new(ms(10), ms(100));
    for (at, bytes) in [(0, 1000), (5, 1000), (12, 1000), (20, 300), (112, 400), (113, 5000), (300, 5000)] {
        window.add(bytes, begin + ms(at));
    }
    // The arrival at 12 ms opens the window, and the one at 112 ms is the last in it.
    assert_eq!((window.bytes, window.arrivals, window.time()), (700, 2, ms(100)));
    assert_eq!(Window::new(ms(10), ms(100)).time(), Duration::ZERO);
}
