//! What becomes of a train: [`SendError`], [`SenderCounts`], [`Departed`].

use std::{collections::VecDeque, io, os::fd::AsFd as _};

use evb_core::time::Instant;

use super::{DatagramSender, MAX_AHEAD};
use crate::{
    clock,
    sys_txtime::{self, Report},
};

/// Maximum number of departures that are kept.
const MAX_DEPARTED: usize = 4096;

/// Reason why a train was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The kernel holds as many trains as it can without dropping any, or this train departs too
    /// far in the future.
    #[error(
        "too many packets wait in the kernel of this host, or these would wait too long; send them again at {until}"
    )]
    TooFarAhead {
        /// Time from which the kernel has room for the train.
        until: Instant,
    },
    /// The socket's send buffer is full; the caller should wait until the socket is writable.
    #[error("the socket's send buffer is full; send again when the socket is writable")]
    Full,
    /// A datagram is larger than the MTU of the device, which may have shrunk.
    #[error(
        "a UDP packet is larger than the MTU of its network device; lower `mtu` in [network], or raise the MTU of the device (`ip link`)"
    )]
    TooLarge,
    /// The network or the operating system failed.
    #[error("the operating system could not send: {0}; check the network and the firewall of this host")]
    Io(#[from] io::Error),
}

/// Outcome of trains, as far as the kernel reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounts {
    /// Trains handed to the kernel.
    pub sent: u64,
    /// Trains dropped by `etf` because their departure times passed while the trains waited.
    pub missed: u64,
    /// Trains dropped by `etf` because it did not accept their departure times: already past when
    /// the train reached `etf`, or of another clock.
    pub invalid: u64,
    /// Other reports about datagrams, such as a port without a listener.
    pub other: u64,
    /// Reports of a router that dropped a datagram for its size: the path's MTU is below the
    /// device's.
    pub too_large_for_path: u64,
    /// Trains that this host dropped for lack of memory or of room in the device's queue.
    pub dropped_here: u64,
    /// Trains that the kernel refused to cut (`UDP_SEGMENT`).
    pub gso_refused: u64,
    /// Datagrams that were sent one by one because the kernel refused to cut trains.
    pub uncut: u64,
}

/// Departure of a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departed {
    /// Index of the train; the sender's first train has index 0.
    pub train: u64,
    /// Time at which the train left the queueing discipline for the device.
    pub at: Instant,
}

impl SendError {
    pub(super) fn from_system(error: io::Error) -> Self {
        match error.raw_os_error() {
            _ if error.kind() == io::ErrorKind::WouldBlock => Self::Full,
            Some(libc::EMSGSIZE) => Self::TooLarge,
            _ => Self::Io(error),
        }
    }
}

impl SenderCounts {
    /// Counts an ICMP report about an earlier datagram, unless the repeated send fails in the same
    /// way because the new datagram itself is too large.
    pub(super) fn note_icmp(&mut self, report: Option<io::Error>, again: Option<&io::Error>) {
        let code = report.and_then(|report| report.raw_os_error());
        match code {
            Some(libc::EMSGSIZE) if again.and_then(io::Error::raw_os_error) == code => {}
            Some(libc::EMSGSIZE) => self.too_large_for_path += 1,
            _ => self.other += 1,
        }
    }
}

impl DatagramSender {
    /// Starts to note the time at which each train leaves this host's queueing discipline, for
    /// [`departed`](Self::departed). For these times the kernel makes a report for each train,
    /// which is too costly outside proofs.
    ///
    /// # Errors
    /// Fails if the system does not support such time stamps. Call this function before the first
    /// train is sent.
    pub fn stamp_departures(&mut self) -> io::Result<()> {
        sys_txtime::set_departure_stamps(self.socket.as_fd())?;
        self.from_realtime = clock::from_realtime();
        self.departed = Some(VecDeque::new());
        Ok(())
    }

    /// Reads the error queue, a bounded number of entries, and returns the counts so far.
    ///
    /// # Errors
    /// An I/O error of the operating system, if the socket is no longer usable.
    pub fn collect(&mut self) -> io::Result<SenderCounts> {
        for _ in 0..4 * MAX_AHEAD {
            match sys_txtime::take_report(self.socket.as_fd())? {
                None => break,
                Some(Report::Missed) => self.counts.missed += 1,
                Some(Report::Invalid) => self.counts.invalid += 1,
                Some(Report::Other) => self.counts.other += 1,
                Some(Report::Departed { id, realtime }) => self.note(id, realtime),
            }
        }
        Ok(self.counts)
    }

    /// Returns the outcome of trains, as far as [`collect`](Self::collect) has read.
    pub fn counts(&self) -> SenderCounts {
        self.counts
    }

    /// Returns the trains whose departure has been noted, in the order of leaving, as far as
    /// [`collect`](Self::collect) has read.
    pub fn departed(&self) -> impl Iterator<Item = Departed> + '_ {
        self.departed.iter().flatten().copied()
    }

    /// Notes when a train left, by the kernel's time stamp of the wall clock. The oldest note gives
    /// way to a new one.
    fn note(&mut self, id: u32, realtime: u64) {
        let Some(departed) = &mut self.departed else { return };
        let at = Instant::from_nanos(realtime).shifted(self.from_realtime);
        departed.push_back(Departed { train: id.into(), at });
        if departed.len() > MAX_DEPARTED {
            departed.pop_front();
        }
    }
}

/// Returns true if the error may be an ICMP report about an earlier datagram: `icmp_err_convert`
/// (`net/ipv4/icmp.c`), `icmpv6_err_convert` (`net/ipv6/icmp.c`), and `EMSGSIZE` for a router's
/// "fragmentation needed" (`__udp4_lib_err`).
pub(crate) fn is_icmp(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::EHOSTDOWN
                | libc::ENOPROTOOPT
                | libc::EOPNOTSUPP
                | libc::EPROTO
                | libc::EACCES
                | libc::EMSGSIZE
        )
    )
}
