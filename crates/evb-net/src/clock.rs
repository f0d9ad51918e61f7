//! The one place where the operating system's clock is read.

use evb_core::time::Instant;

use crate::sys_time;

/// The host's monotonic clock (`CLOCK_MONOTONIC`), which every process of a host shares.
pub fn now() -> Instant {
    Instant::from_nanos(sys_time::monotonic_nanos())
}

/// Microseconds since 1970: fresh for every start of a supervisor, hence good for an epoch; never for measuring time.
pub fn wall_clock_micros() -> u64 {
    sys_time::realtime_nanos() / 1_000
}

#[cfg(test)]
mod tests {
    #[test]
    fn monotonic_time_moves_and_wall_time_is_of_this_century() {
        let first = super::now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(super::now().since(first) >= std::time::Duration::from_millis(2));
        assert!(super::wall_clock_micros() > 946_684_800_000_000);
    }
}
