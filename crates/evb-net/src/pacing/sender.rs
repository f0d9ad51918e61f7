//! [`DatagramSender`]: trains of datagrams to one peer, each train with its departure time.

mod gso;
mod outcome;
mod train;

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
    source::{MAX_DATAGRAMS, MAX_TRAIN},
    time::Instant,
    units::{Bytes, Rate},
};
use socket2::SockRef;

pub use gso::GsoState;
pub use outcome::{Departed, SendError, SenderCounts};

pub(crate) use outcome::is_icmp;

use self::gso::Gso;
use super::executor::Executor;
use crate::{
    clock,
    sys_txtime::{self, DepartureClock},
};

/// Maximum number of trains that wait in the kernel for their departure: beyond 100 packets of one
/// flow (`flow_limit`), `fq` silently drops packets in the sending host.
pub const MAX_AHEAD: usize = 64;

/// Maximum number of slices in one train (`UIO_MAXIOV`).
pub const MAX_SLICES: usize = 1024;

/// Maximum number of ICMP reports about earlier datagrams for which the send of one train is
/// repeated.
const MAX_ICMP: usize = 4;

/// Longest time from now to a departure: `fq` drops packets whose departure is more than 10 s away
/// (`horizon`).
const HORIZON: Duration = Duration::from_secs(5);

/// A connected UDP socket that never blocks. The socket is connected because `fq` treats an
/// unconnected socket as one flow per destination, so that its packets would escape the socket's
/// rate.
#[derive(Debug)]
pub struct DatagramSender {
    socket: UdpSocket,
    clock: Option<DepartureClock>,
    /// Departure times of the trains that still wait in the kernel.
    ahead: VecDeque<Instant>,
    counts: SenderCounts,
    departed: Option<VecDeque<Departed>>,
    /// Nanoseconds to add to a time of `CLOCK_REALTIME` to get the same time on the monotonic
    /// clock.
    from_realtime: i64,
    gso: Gso,
    /// Buffer for one datagram, used when the datagrams of a train are sent one by one.
    gathered: Vec<u8>,
}

impl DatagramSender {
    /// Connects a local address to a peer, on a socket prepared by `executor` for at most `rate`,
    /// with a send buffer of `buffer` if given.
    ///
    /// # Errors
    /// Returns the system's error: the address does not belong to this host, there is no route, or
    /// the executor's options are not permitted.
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
        let mut sender = Self::over(socket);
        sender.prepare(executor, rate)?;
        Ok(sender)
    }

    /// Creates a sender on a non-blocking socket.
    pub(crate) fn over(socket: UdpSocket) -> Self {
        Self {
            socket,
            clock: None,
            ahead: VecDeque::with_capacity(MAX_AHEAD),
            counts: SenderCounts::default(),
            departed: None,
            from_realtime: 0,
            gso: Gso::default(),
            gathered: Vec::new(),
        }
    }

    /// Lets `executor` prepare the socket for at most `rate`, so that trains may have departure
    /// times.
    ///
    /// # Errors
    /// Fails if the executor's options are not permitted.
    pub fn prepare(&mut self, executor: &dyn Executor, rate: Option<Rate>) -> io::Result<()> {
        executor.prepare(self.socket.as_fd(), rate)?;
        self.clock = executor.clock();
        Ok(())
    }

    /// Returns the address from which this socket sends.
    ///
    /// # Errors
    /// An I/O error of the operating system, if the socket is no longer usable.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Sends one train: the bytes of all slices, cut into datagrams of `segment` bytes if given.
    /// The train departs at `at` if the executor works in the kernel, else at once. Returns the
    /// number of bytes sent.
    ///
    /// # Errors
    /// Returns a [`SendError`] if nothing was sent.
    pub fn send(
        &mut self,
        slices: &[IoSlice<'_>],
        segment: Option<u16>,
        at: Option<Instant>,
    ) -> Result<usize, SendError> {
        checked_length(slices, segment)?;
        match self.attempt(slices, segment, at) {
            // The device's queue is full, which is as temporary as a full socket buffer and is
            // reported in the same way.
            Err(SendError::Io(error)) if no_room(&error) => Err(SendError::Full),
            outcome => outcome,
        }
    }

    /// Passes one message to the kernel, if the kernel can hold one more until `at`.
    fn attempt(
        &mut self,
        slices: &[IoSlice<'_>],
        segment: Option<u16>,
        at: Option<Instant>,
    ) -> Result<usize, SendError> {
        let at = at.filter(|_| self.clock.is_some());
        if let Some(at) = at {
            self.admit(at, clock::now())?;
        }
        let txtime = at.map(|at| match self.clock {
            Some(DepartureClock::Tai) => at.shifted(clock::to_tai()).as_nanos(),
            Some(DepartureClock::Monotonic) | None => at.as_nanos(),
        });
        let mut outcome = sys_txtime::send(self.socket.as_fd(), slices, segment, txtime);
        // An ICMP report about an earlier datagram arrives as the error of the next send, which
        // then sends nothing; more reports may arrive while the send is repeated. An error that the
        // train itself causes comes back each time.
        for _ in 0..MAX_ICMP {
            if !outcome.as_ref().is_err_and(is_icmp) {
                break;
            }
            let report = outcome;
            outcome = sys_txtime::send(self.socket.as_fd(), slices, segment, txtime);
            self.counts.note_icmp(report.err(), outcome.as_ref().err());
        }
        let sent = outcome.map_err(SendError::from_system)?;
        self.counts.sent += 1;
        self.ahead.extend(at);
        Ok(sent)
    }

    /// Checks that the kernel can hold one more train until `at`.
    fn admit(&mut self, at: Instant, now: Instant) -> Result<(), SendError> {
        while self.ahead.front().is_some_and(|departs| *departs <= now) {
            self.ahead.pop_front();
        }
        // The time from which on this departure is near enough for the kernel, unless it is
        // already.
        let horizon = at.since(now).checked_sub(HORIZON).map(|excess| now + excess);
        // The next departure, if the kernel has as many trains as it takes.
        let crowd = self.ahead.front().copied().filter(|_| self.ahead.len() >= MAX_AHEAD);
        match horizon.or(crowd) {
            None => Ok(()),
            Some(until) => Err(SendError::TooFarAhead { until }),
        }
    }
}

/// Returns the number of bytes of a train, or an error if the train exceeds a limit.
fn checked_length(slices: &[IoSlice<'_>], segment: Option<u16>) -> Result<usize, SendError> {
    let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
    let too_many = segment.is_some_and(|segment| bytes > usize::from(segment) * MAX_DATAGRAMS);
    if bytes <= MAX_TRAIN && !too_many && slices.len() <= MAX_SLICES {
        return Ok(bytes);
    }
    let what = format!(
        "evb made a train of packets with {bytes} bytes in {} slices, but at most {MAX_DATAGRAMS} packets, {MAX_TRAIN} bytes and {MAX_SLICES} slices are allowed, which is a fault of evb: report it",
        slices.len()
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, what).into())
}

fn no_room(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOBUFS)
}

impl AsFd for DatagramSender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Allows an async runtime to watch the socket.
impl AsRawFd for DatagramSender {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
