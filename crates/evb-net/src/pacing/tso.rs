//! TCP's pacing under segmentation offload: the trains that a paced socket still sends at line
//! rate.

#[cfg(test)]
mod tests;

use std::fmt;

use evb_core::units::{Bytes, Rate};

use crate::host;

/// Settings that decide the length of the trains that TCP makes of the bytes waiting in a paced
/// socket (`tcp_tso_autosize`, net/ipv4/tcp_output.c; and ip-sysctl on `tcp_tso_rtt_log`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TsoTrain {
    /// Kernel setting `net.ipv4.tcp_tso_rtt_log`: if the round trip is below 2^`rtt_log` µs, trains
    /// grow to the device's limit; 0 disables this growth. `None` where the kernel (before 5.18)
    /// has no such setting.
    pub rtt_log: Option<u32>,
    /// Longest train that the device accepts (`gso_max_size`).
    pub longest: Bytes,
}

impl TsoTrain {
    /// The default settings of Linux.
    pub const LINUX: Self = Self { rtt_log: Some(9), longest: Bytes::new(65_536) };

    /// Reads the setting of this network namespace, for a device that accepts trains of `longest`
    /// bytes.
    pub fn of_host(longest: Option<u32>) -> Self {
        let rtt_log = host::setting_number("net.ipv4.tcp_tso_rtt_log", 0).ok();
        let longest = longest.map_or(Self::LINUX.longest, |bytes| Bytes::new(bytes.into()));
        Self { rtt_log, longest }
    }

    /// Returns the longest train of a socket that is paced at `rate` and holds at most `unsent`
    /// bytes when another `write` bytes are written. A local network is assumed, with a round trip
    /// below 2^`rtt_log` µs.
    pub fn length(self, rate: Rate, unsent: Bytes, write: Bytes) -> Bytes {
        /// Kernel's `sk_pacing_shift`: a train has the bytes of about a millisecond at the rate.
        const PACING_SHIFT: u32 = 10;
        /// Shortest train: `tcp_min_tso_segs` segments of 1448 bytes each.
        const LEAST: u64 = 2 * 1448;
        let by_rate = (rate.bits_per_second() / 8) >> PACING_SHIFT;
        // While this setting is on, a peer that is near gets the longest trains at any rate.
        let by_distance = if self.rtt_log.is_some_and(|log| log > 0) { self.longest.count() } else { 0 };
        let wanted = by_rate.saturating_add(by_distance).clamp(LEAST, self.longest.count().max(LEAST));
        // A train cannot have more bytes than the socket holds.
        Bytes::new(wanted.min(unsent.count().saturating_add(write.count())))
    }
}

impl fmt::Display for TsoTrain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rtt_log {
            Some(log) => write!(f, "net.ipv4.tcp_tso_rtt_log = {log}, gso_max_size {}", self.longest),
            None => write!(f, "this kernel has no net.ipv4.tcp_tso_rtt_log, gso_max_size {}", self.longest),
        }
    }
}
