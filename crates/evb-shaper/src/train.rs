//! [`longest_train`]: how many bytes of datagrams go to the kernel as one.

#[cfg(test)]
mod tests;

use core::time::Duration;

use evb_core::units::{Bytes, Rate};

/// Longest time that a train may keep the link busy.
const ON_THE_LINK: Duration = Duration::from_micros(64);

/// Five full packets of 1500 bytes: shorter trains cost more calls, and on slower links they gain
/// nothing.
const SHORTEST: Bytes = Bytes::kib(8);

/// The longest train for a link of that rate.
///
/// On a wire a train is its packets. But queueing disciplines treat it as one packet until a device
/// cuts it: a token bucket (`net/sched/sch_tbf.c`, `sch_htb.c`) releases it only when it has tokens
/// for all of it, and loses those that come while its bucket is full. With a bucket of 16 KiB and
/// trains of 13.6 kB, a timer that is 22 µs late costs capacity: it lost 4 % of a port of 1 Gbit/s;
/// with trains of five packets it carried 1 to 4 % more (docs/reference/benchmarks.md).
pub fn longest_train(link: Rate) -> Bytes {
    let bytes = link.bytes_per_second() * ON_THE_LINK.as_secs_f64();
    Bytes::new(bytes as u64).max(SHORTEST)
}
