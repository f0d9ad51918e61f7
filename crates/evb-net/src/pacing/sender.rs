//! [`DatagramSender`]: trains of datagrams to one peer, each train with its departure time.

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd},
    time::Duration,
};

use evb_core::{
    time::Instant,
    units::{Bytes, Rate},
};
use socket2::SockRef;

use super::executor::Executor;
use crate::{
    clock,
    sys_txtime::{self, DepartureClock, Report},
};

/// How many trains may wait in the kernel for their departure: `fq` drops beyond 100 of one flow (`flow_limit`), in our own
/// host, and says nothing.
pub const MAX_AHEAD: usize = 64;

/// How many datagrams one train may be cut into (`UDP_MAX_SEGMENTS`; newer kernels take twice as many).
pub const MAX_DATAGRAMS: usize = 64;

/// How many bytes one train may have: what an IP packet holds, less its headers and some room for options, as the system builds
/// the train like one.
pub const MAX_TRAIN: usize = 65_487;

/// How far ahead a departure may lie: `fq` drops beyond 10 s (`horizon`).
const HORIZON: Duration = Duration::from_secs(5);

/// How many departures are kept.
const MAX_DEPARTED: usize = 4096;

/// Why a train was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// As many trains wait in the kernel as it holds without dropping, or this one departs too far in the future.
    #[error("too many trains wait in the kernel, or one would wait too long; send it at {until}")]
    TooFarAhead {
        /// From then on there is room.
        until: Instant,
    },
    /// The socket's buffer is full; wait until it is writable.
    #[error("the socket's send buffer is full")]
    Full,
    /// The network or the system failed.
    #[error("sending failed: {0}")]
    Io(#[from] io::Error),
}

/// What became of trains, as far as the kernel tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounts {
    /// Trains handed to the kernel.
    pub sent: u64,
    /// Dropped by `etf` because their time passed while they waited.
    pub missed: u64,
    /// Dropped by `etf` because it did not accept their time: past when it arrived there, or another clock.
    pub invalid: u64,
    /// Other reports, such as a port where nobody listens.
    pub other: u64,
}

/// When a train left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departed {
    /// Which: the first train of the sender is 0.
    pub train: u64,
    /// When it left the queueing discipline for the device.
    pub at: Instant,
}

/// A connected UDP socket, never blocking. Connected, because `fq` takes an unconnected one for a flow per destination, so
/// that it escapes its rate.
#[derive(Debug)]
pub struct DatagramSender {
    socket: UdpSocket,
    clock: Option<DepartureClock>,
    /// Departure times that have not come yet.
    ahead: VecDeque<Instant>,
    counts: SenderCounts,
    departed: Option<VecDeque<Departed>>,
    /// What to add to a time of `CLOCK_REALTIME` so as to have the monotonic clock's.
    from_realtime: i64,
}

impl DatagramSender {
    /// From a local address to a peer, prepared by `executor` for at most `rate`, with a send buffer of `buffer` where given.
    ///
    /// # Errors
    /// The system's: the address is not ours, there is no route, or the executor's options are not permitted.
    pub fn connect(
        local: SocketAddr,
        peer: SocketAddr,
        executor: &dyn Executor,
        rate: Option<Rate>,
        buffer: Option<Bytes>,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind(local)?;
        socket.set_nonblocking(true)?;
        if let Some(buffer) = buffer {
            SockRef::from(&socket).set_send_buffer_size(buffer.as_usize())?;
        }
        socket.connect(peer)?;
        executor.prepare(socket.as_fd(), rate)?;
        Ok(Self {
            socket,
            clock: executor.clock(),
            ahead: VecDeque::with_capacity(MAX_AHEAD),
            counts: SenderCounts::default(),
            departed: None,
            from_realtime: 0,
        })
    }

    /// The address that it sends from.
    ///
    /// # Errors
    /// The system's, on a socket that is broken already.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// From now on, notes when each train leaves this host's queueing discipline, for [`departed`](Self::departed). It
    /// costs a report a train: for proofs, not for production.
    ///
    /// # Errors
    /// The system's: it knows no such time stamps. Ask before the first train.
    pub fn stamp_departures(&mut self) -> io::Result<()> {
        sys_txtime::set_departure_stamps(self.socket.as_fd())?;
        self.from_realtime = clock::from_realtime();
        self.departed = Some(VecDeque::new());
        Ok(())
    }

    /// Sends one train: the bytes of all slices, cut into datagrams of `segment` bytes if given. With an executor of the kernel
    /// it departs at `at`, with another one now. Returns the bytes sent.
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn send(
        &mut self,
        slices: &[IoSlice<'_>],
        segment: Option<u16>,
        at: Option<Instant>,
    ) -> Result<usize, SendError> {
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        if bytes > MAX_TRAIN || segment.is_some_and(|segment| bytes > usize::from(segment) * MAX_DATAGRAMS) {
            let what =
                format!("a train of {bytes} bytes: at most {MAX_DATAGRAMS} datagrams and {MAX_TRAIN} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what).into());
        }
        let at = at.filter(|_| self.clock.is_some());
        if let Some(at) = at {
            self.admit(at, clock::now())?;
        }
        let txtime = at.map(|at| match self.clock {
            Some(DepartureClock::Tai) => at.shifted(clock::to_tai()).as_nanos(),
            Some(DepartureClock::Monotonic) | None => at.as_nanos(),
        });
        let attempt = || sys_txtime::send(self.socket.as_fd(), slices, segment, txtime);
        // A refusal is the answer to an earlier datagram, and this one was not sent.
        let outcome = match attempt() {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.counts.other += 1;
                attempt()
            }
            outcome => outcome,
        };
        match outcome {
            Ok(sent) => {
                self.counts.sent += 1;
                self.ahead.extend(at);
                Ok(sent)
            }
            // ENOBUFS: the device's queue is full; it drains as the socket's buffer does.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock || no_room(&error) => {
                Err(SendError::Full)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the error queue, a bounded number of entries, and returns the counts so far.
    ///
    /// # Errors
    /// The system's, on a socket that is broken already.
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

    /// The trains whose departure has been noted, in the order of leaving, as far as [`collect`](Self::collect) has read.
    pub fn departed(&self) -> impl Iterator<Item = Departed> + '_ {
        self.departed.iter().flatten().copied()
    }

    fn note(&mut self, id: u32, realtime: u64) {
        let Some(departed) = &mut self.departed else { return };
        let at = Instant::from_nanos(realtime).shifted(self.from_realtime);
        departed.push_back(Departed { train: id.into(), at });
        if departed.len() > MAX_DEPARTED {
            departed.pop_front();
        }
    }

    /// Whether the kernel holds one more train until `at`.
    fn admit(&mut self, at: Instant, now: Instant) -> Result<(), SendError> {
        while self.ahead.front().is_some_and(|departs| *departs <= now) {
            self.ahead.pop_front();
        }
        let horizon = at.since(now).checked_sub(HORIZON).map(|excess| now + excess);
        let crowd = self.ahead.front().copied().filter(|_| self.ahead.len() >= MAX_AHEAD);
        match horizon.or(crowd) {
            None => Ok(()),
            Some(until) => Err(SendError::TooFarAhead { until }),
        }
    }
}

#[cfg(unix)]
fn no_room(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}

impl AsFd for DatagramSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// So that a runtime may watch it.
impl AsRawFd for DatagramSender {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
