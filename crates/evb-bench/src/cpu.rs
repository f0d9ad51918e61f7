//! Processor time, as the kernel accounts it: in ticks of 10 ms (`USER_HZ`, proc(5)).

use std::time::Duration;

const TICK: Duration = Duration::from_millis(10);

/// Returns the processor time that this process has used on all cores; `None` if `/proc/self/stat`
/// cannot be read.
pub(super) fn of_process() -> Option<Duration> {
    read("/proc/self/stat")
}

/// Returns the processor time that this thread has used; `None` if `/proc/thread-self/stat` cannot
/// be read.
pub(super) fn of_thread() -> Option<Duration> {
    read("/proc/thread-self/stat")
}

fn read(path: &str) -> Option<Duration> {
    let text = std::fs::read_to_string(path).ok()?;
    // The second field of `/proc/PID/stat` is the program's name in brackets, which may contain any
    // character. The 14th and 15th fields are user and system time.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    Some(TICK * (ticks()? + ticks()?))
}

#[cfg(test)]
mod tests;
