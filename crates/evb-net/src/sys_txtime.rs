//! Departure times, pacing rates and time stamps of sockets: `SO_TXTIME`, `SO_MAX_PACING_RATE`,
//! `UDP_SEGMENT`, `SO_TIMESTAMPNS`, `SO_TIMESTAMPING` and the error queue (Linux,
//! `include/uapi/linux/{net_tstamp,errqueue}.h`).
//!
//! The unsafe code of this module is one call each of `sendmsg` and `recvmsg`.

/// Clock on which the departure time of a datagram is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DepartureClock {
    /// `CLOCK_MONOTONIC`, which the queueing discipline `fq` uses.
    Monotonic,
    /// `CLOCK_TAI`, which the queueing discipline `etf` uses; needs CAP_NET_ADMIN.
    Tai,
}

/// One entry of a socket's error queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The queueing discipline dropped a datagram because its departure time passed while it
    /// waited.
    Missed,
    /// The queueing discipline dropped a datagram because it did not accept the departure time
    /// (already past, or of another clock).
    Invalid,
    /// Time at which the `id`-th datagram of this socket was handed to the device, in nanoseconds
    /// of `CLOCK_REALTIME`.
    Departed { id: u32, realtime: u64 },
    /// The entry of the error queue reports something else, such as an ICMP error.
    Other,
}

/// Length and receive time of a message, or of the bytes peeked at in a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Bytes of payload.
    pub(crate) length: usize,
    /// The kernel's time stamp, in nanoseconds of `CLOCK_REALTIME`.
    pub(crate) realtime: Option<u64>,
}

/// Returns the first `timespec` in `data`, in nanoseconds; `None` if malformed. If the kernel
/// reports three `timespec`s, the first is the software time stamp.
fn timespec_nanos(data: &[u8]) -> Option<u64> {
    const LONG: usize = size_of::<std::ffi::c_long>();
    let long = |bytes: &[u8]| {
        let bytes: [u8; LONG] = bytes.try_into().ok()?;
        u64::try_from(std::ffi::c_long::from_ne_bytes(bytes)).ok()
    };
    let (seconds, nanos) = (long(data.get(..LONG)?)?, long(data.get(LONG..2 * LONG)?)?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod platform {
    use std::{
        ffi::c_int,
        io::{self, IoSlice},
        os::fd::{AsRawFd as _, BorrowedFd},
    };

    use super::{DepartureClock, Received, Report, timespec_nanos};
    use crate::{
        ancillary::Ancillary,
        sys_option::{get, set},
    };

    /// Constant of `linux/udp.h`; libc has neither this nor the constants of `linux/errqueue.h`
    /// below.
    const UDP_SEGMENT: c_int = 103;
    const ORIGIN_TXTIME: u8 = 6;
    const CODE_INVALID: u8 = 1;
    const CODE_MISSED: u8 = 2;
    const STAMP_SOFTWARE: u32 = 0;

    /// Lets the datagrams of a socket carry departure times of `clock`, and makes the kernel report
    /// each datagram that is dropped because of its departure time.
    pub(crate) fn set_txtime(socket: BorrowedFd<'_>, clock: DepartureClock) -> io::Result<()> {
        let clockid = match clock {
            DepartureClock::Monotonic => libc::CLOCK_MONOTONIC,
            DepartureClock::Tai => libc::CLOCK_TAI,
        };
        let value = libc::sock_txtime { clockid, flags: libc::SOF_TXTIME_REPORT_ERRORS };
        set(socket, libc::SOL_SOCKET, libc::SO_TXTIME, &value)
    }

    /// Sets the maximum pacing rate of a socket in bytes per second. The value has eight bytes,
    /// since four bytes would limit the rate to 4.29 GB/s.
    pub(crate) fn set_max_pacing_rate(socket: BorrowedFd<'_>, bytes_per_second: u64) -> io::Result<()> {
        set(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &bytes_per_second)
    }

    /// Returns the maximum pacing rate of a socket in bytes per second.
    pub(crate) fn max_pacing_rate(socket: BorrowedFd<'_>) -> io::Result<u64> {
        get(socket, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE)
    }

    /// Makes the kernel stamp received data with the time of `CLOCK_REALTIME`.
    pub(crate) fn set_receive_stamps(socket: BorrowedFd<'_>) -> io::Result<()> {
        set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)
    }

    /// Makes the kernel report, in the socket's error queue, the time at which each datagram leaves
    /// the queueing discipline for the device.
    pub(crate) fn set_departure_stamps(socket: BorrowedFd<'_>) -> io::Result<()> {
        let flags = libc::SOF_TIMESTAMPING_TX_SOFTWARE
            | libc::SOF_TIMESTAMPING_SOFTWARE
            | libc::SOF_TIMESTAMPING_OPT_ID
            | libc::SOF_TIMESTAMPING_OPT_TSONLY;
        set(socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, &flags)
    }

    /// Sends `slices` on a connected socket, cut into datagrams of `segment` bytes if given, all
    /// with the departure time `txtime` if given.
    pub(crate) fn send(
        socket: BorrowedFd<'_>,
        slices: &[IoSlice<'_>],
        segment: Option<u16>,
        txtime: Option<u64>,
    ) -> io::Result<usize> {
        let mut ancillary = Ancillary::<64>::new();
        if let Some(segment) = segment {
            ancillary.push(libc::SOL_UDP, UDP_SEGMENT, &segment.to_ne_bytes());
        }
        if let Some(txtime) = txtime {
            ancillary.push(libc::SOL_SOCKET, libc::SCM_TXTIME, &txtime.to_ne_bytes());
        }
        // SAFETY: `msghdr` is plain numbers and pointers, for which zero is a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        // The kernel only reads through `msg_iov`, and `IoSlice` is guaranteed to have the layout
        // of `iovec`.
        message.msg_iov = slices.as_ptr().cast_mut().cast();
        message.msg_iovlen = slices.len() as _;
        if ancillary.length > 0 {
            message.msg_control = ancillary.bytes.as_mut_ptr().cast();
            message.msg_controllen = ancillary.length as _;
        }
        // SAFETY: `slices` and `ancillary` are valid during the call, which reads them only within
        // the given lengths.
        let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Receives one datagram and what the kernel says beside it. Returns the length of the
    /// datagram.
    fn receive_message<const N: usize>(
        socket: BorrowedFd<'_>,
        room: &mut [u8],
        ancillary: &mut Ancillary<N>,
        flags: c_int,
    ) -> io::Result<usize> {
        let mut slice = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
        // SAFETY: `msghdr` is plain numbers and pointers, for which zero is a value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut slice;
        message.msg_iovlen = 1;
        message.msg_control = ancillary.bytes.as_mut_ptr().cast();
        message.msg_controllen = N as _;
        // SAFETY: `room` and `ancillary` are exclusively borrowed during the call, which writes
        // only within the given lengths.
        let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
        ancillary.length = (message.msg_controllen as usize).min(N);
        usize::try_from(received).map_err(|_| io::Error::last_os_error())
    }

    /// Receives one datagram into `room`; bytes beyond the length of `room` are lost.
    pub(crate) fn receive(socket: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<Received> {
        let mut ancillary = Ancillary::<128>::new();
        let length = receive_message(socket, room, &mut ancillary, 0)?;
        Ok(Received { length, realtime: stamp(&ancillary) })
    }

    /// Peeks at the next byte without removing it; never blocks. On a TCP stream, the receive time
    /// is that of the packet that carried this byte, or of the last packet that the kernel merged
    /// with it (`tcp_try_coalesce`).
    pub(crate) fn peek(socket: BorrowedFd<'_>) -> io::Result<Received> {
        let mut ancillary = Ancillary::<128>::new();
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        let length = receive_message(socket, &mut [0], &mut ancillary, flags)?;
        Ok(Received { length, realtime: stamp(&ancillary) })
    }

    /// Returns the time at which the kernel received a message, in nanoseconds of `CLOCK_REALTIME`.
    pub(crate) fn stamp<const N: usize>(ancillary: &Ancillary<N>) -> Option<u64> {
        let mut realtime = None;
        ancillary.each(|level, kind, data| {
            if (level, kind) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                realtime = timespec_nanos(data);
            }
        });
        realtime
    }

    /// Removes and returns one entry of the socket's error queue, if there is one; never blocks.
    pub(crate) fn take_report(socket: BorrowedFd<'_>) -> io::Result<Option<Report>> {
        let mut ancillary = Ancillary::<512>::new();
        match receive_message(socket, &mut [], &mut ancillary, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        }
        let (mut realtime, mut report) = (None, Report::Other);
        ancillary.each(|level, kind, data| match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) => realtime = timespec_nanos(data),
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR) => report = judge(data),
            _ => {}
        });
        if let (Report::Departed { realtime: at, .. }, Some(nanos)) = (&mut report, realtime) {
            *at = nanos;
        }
        Ok(Some(report))
    }

    /// Interprets the bytes of a `sock_extended_err`: errno u32, origin u8, type u8, code u8, pad
    /// u8, info u32, data u32.
    fn judge(data: &[u8]) -> Report {
        let word = |at: usize| {
            data.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_ne_bytes)
        };
        let (origin, code) = (data.get(4).copied(), data.get(6).copied());
        match (origin, code) {
            (Some(ORIGIN_TXTIME), Some(CODE_MISSED)) => Report::Missed,
            (Some(ORIGIN_TXTIME), Some(CODE_INVALID)) => Report::Invalid,
            (Some(libc::SO_EE_ORIGIN_TIMESTAMPING), _) if word(8) == STAMP_SOFTWARE => {
                Report::Departed { id: word(12), realtime: 0 }
            }
            _ => Report::Other,
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::{
        io::{self, IoSlice},
        os::fd::BorrowedFd,
    };

    use super::{DepartureClock, Received, Report};
    use crate::ancillary::Ancillary;

    fn no<T>() -> io::Result<T> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "departure times are supported on Linux only"))
    }

    pub(crate) fn set_txtime(_: BorrowedFd<'_>, _: DepartureClock) -> io::Result<()> {
        no()
    }

    pub(crate) fn set_max_pacing_rate(_: BorrowedFd<'_>, _: u64) -> io::Result<()> {
        no()
    }

    pub(crate) fn max_pacing_rate(_: BorrowedFd<'_>) -> io::Result<u64> {
        no()
    }

    pub(crate) fn set_receive_stamps(_: BorrowedFd<'_>) -> io::Result<()> {
        no()
    }

    pub(crate) fn set_departure_stamps(_: BorrowedFd<'_>) -> io::Result<()> {
        no()
    }

    pub(crate) fn send(
        _: BorrowedFd<'_>,
        _: &[IoSlice<'_>],
        _: Option<u16>,
        _: Option<u64>,
    ) -> io::Result<usize> {
        no()
    }

    pub(crate) fn receive(_: BorrowedFd<'_>, _: &mut [u8]) -> io::Result<Received> {
        no()
    }

    pub(crate) fn peek(_: BorrowedFd<'_>) -> io::Result<Received> {
        no()
    }

    pub(crate) fn stamp<const N: usize>(_: &Ancillary<N>) -> Option<u64> {
        None
    }

    pub(crate) fn take_report(_: BorrowedFd<'_>) -> io::Result<Option<Report>> {
        no()
    }
}

pub(crate) use platform::{
    max_pacing_rate, peek, receive, send, set_departure_stamps, set_max_pacing_rate, set_receive_stamps,
    set_txtime, stamp, take_report,
};

#[cfg(test)]
mod tests;
