//! The operating system's clock and timers: just the calls into libc that read and arm them.
#![allow(unsafe_code)]

use std::io;

/// Reads a clock, in nanoseconds.
fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, exclusively borrowed timespec for the length of the call, which
    // writes it or fails.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    debug_assert_eq!(result, 0, "every clock that is read here exists on all supported systems");
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Returns the time of `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn monotonic_nanos() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// Returns the time of `CLOCK_REALTIME` in nanoseconds since 1970.
pub(crate) fn realtime_nanos() -> u64 {
    read_clock(libc::CLOCK_REALTIME)
}

/// Returns the time of `CLOCK_TAI` in nanoseconds; equal to `CLOCK_REALTIME` on a system that was
/// not told the number of leap seconds.
#[cfg(target_os = "linux")]
pub(crate) fn tai_nanos() -> u64 {
    read_clock(libc::CLOCK_TAI)
}

#[cfg(not(target_os = "linux"))]
pub(crate) use realtime_nanos as tai_nanos;

/// Returns the kernel's word on whether `CLOCK_REALTIME` is synchronised with UTC; `None` if the
/// kernel does not say.
#[cfg(target_os = "linux")]
pub(crate) fn is_synchronised() -> Option<bool> {
    // SAFETY: a timex is a structure of numbers, for which zeros are valid.
    let mut read_only: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `read_only` is valid and exclusively borrowed for the length of the call; its `modes`
    // are zero, so the call reads and sets nothing.
    let state = unsafe { libc::adjtimex(&raw mut read_only) };
    (state >= 0).then_some(state != libc::TIME_ERROR && read_only.status & libc::STA_UNSYNC == 0)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_synchronised() -> Option<bool> {
    None
}

/// A `timerfd` on `CLOCK_MONOTONIC`; closed when dropped.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub(crate) struct TimerFd(std::os::fd::OwnedFd);

#[cfg(target_os = "linux")]
impl TimerFd {
    /// Creates a disarmed, non-blocking timer.
    pub(crate) fn new() -> io::Result<Self> {
        use std::os::fd::FromRawFd as _;
        // SAFETY: the call takes no pointers; its result is checked below.
        let fd =
            unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fd` was just created, is open, and has no other owner.
        Ok(Self(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) }))
    }

    /// Registers the timer with the tokio runtime, which then wakes a task at the expiry.
    pub(crate) fn watched(self) -> io::Result<tokio::io::unix::AsyncFd<Self>> {
        // SAFETY: `as_raw_fd` always returns the one descriptor that `self` owns, and the
        // descriptor is closed only when `self` is dropped.
        let watched =
            unsafe { tokio::io::unix::AsyncFd::register_with_interest(self, tokio::io::Interest::READABLE) };
        watched.map_err(|error| error.into_parts().1)
    }

    /// Sets the timer to expire once, at `nanos` of `CLOCK_MONOTONIC`, or immediately if that time
    /// has passed; `None` disarms the timer.
    pub(crate) fn set(&self, nanos: Option<u64>) -> io::Result<()> {
        use std::os::fd::AsRawFd as _;
        // A time of zero would disarm the timer, so the earliest time is one nanosecond. An i64 of
        // nanoseconds lasts 292 years.
        let nanos = nanos.map_or(0, |nanos| nanos.clamp(1, i64::MAX as u64));
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let mut value = zero;
        value.tv_sec = (nanos / 1_000_000_000) as _;
        value.tv_nsec = (nanos % 1_000_000_000) as libc::c_long;
        let setting = libc::itimerspec { it_interval: zero, it_value: value };
        // SAFETY: the descriptor is open while `self` lives, `setting` is valid for the call, and
        // the pointer for the old value may be null.
        let result = unsafe {
            libc::timerfd_settime(
                self.0.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &raw const setting,
                std::ptr::null_mut(),
            )
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Consumes an expiry of the timer; fails with `WouldBlock` if the timer has not expired.
    pub(crate) fn take_expiry(&self) -> io::Result<()> {
        use std::os::fd::AsRawFd as _;
        let mut count = 0u64;
        // SAFETY: the eight bytes of `count` are writable during the call; the descriptor is open
        // while `self` lives.
        let read = unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
        if read < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(target_os = "linux")]
impl std::os::fd::AsRawFd for TimerFd {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0.as_raw_fd()
    }
}
