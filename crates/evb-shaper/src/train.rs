//! [`longest_train`]: the largest number of datagram bytes to pass to the kernel in one send.

#[cfg(test)]
mod tests;

use core::time::Duration;

use evb_core::units::{Bytes, Rate};

/// Longest time that a packet train may keep the link busy.
const ON_THE_LINK: Duration = Duration::from_micros(64);

/// The smallest limit on a train: five full packets of 1500 bytes. Shorter trains would cost more
/// system calls and gain nothing, even on slow links.
const SHORTEST: Bytes = Bytes::kib(8);

/// Returns the longest train of datagrams for a link of the given rate.
///
/// On the wire, a train is a sequence of packets. The queueing disciplines of the kernel, however,
/// treat it as one packet until the device cuts it: a token bucket (`net/sched/sch_tbf.c`,
/// `sch_htb.c`) releases a train only when it has tokens for all of it, and loses the tokens that
/// arrive while the bucket is full. With a bucket of 16 KiB and trains of 13.6 kB, a timer that is
/// 22 µs late therefore costs capacity: 4 % of a port of 1 Gbit/s was lost. With trains of five
/// packets, the port carried 1 to 4 % more (docs/reference/benchmarks.md).
pub fn longest_train(link: Rate) -> Bytes {
    let bytes = link.bytes_per_second() * ON_THE_LINK.as_secs_f64();
    Bytes::new(bytes as u64).max(SHORTEST)
}
