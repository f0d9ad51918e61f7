//! The kernel's calls for datagrams in bulk: batches of received runs (`recvmmsg`, `UDP_GRO`), the
//! counters of a socket (`SO_MEMINFO`), checksums (`SO_NO_CHECK`, `UDP_NO_CHECK6_*`) and buffers
//! beyond the system's limit (`SO_RCVBUFFORCE`). Linux: `include/uapi/linux/udp.h`,
//! `include/uapi/asm-generic/socket.h`, `net/ipv4/udp.c`.
//!
//! The unsafe code of this module is one call of `recvmmsg`, and a promise to tokio that a
//! descriptor stays open ([`Owned`]).

#[cfg(test)]
mod tests;

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6},
    os::fd::{AsRawFd, OwnedFd},
    time::Duration,
};

use tokio::io::{Interest, unix::AsyncFd};

use crate::{ancillary::Ancillary, pacing::DatagramSender, stamps, sys_txtime};

/// Maximum number of messages that one call of `recvmmsg` receives.
pub(crate) const MAX_BATCH: usize = 32;

/// Size of `sockaddr_in6`, which is larger than `sockaddr_in`.
const ADDRESS: usize = 28;

/// Room into which the kernel writes an address, with the alignment of `sockaddr`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(8))]
struct RawAddress([u8; ADDRESS]);

impl RawAddress {
    /// Reads a `sockaddr_in` (family, port, address) or `sockaddr_in6` (family, port, flow,
    /// address, scope).
    fn read(&self, length: usize) -> Option<SocketAddr> {
        let bytes = self.0.get(..length)?;
        let (family, rest) = bytes.split_first_chunk::<2>()?;
        let (port, rest) = rest.split_first_chunk::<2>()?;
        let port = u16::from_be_bytes(*port);
        let (word, rest) = rest.split_first_chunk::<4>()?;
        match i32::from(u16::from_ne_bytes(*family)) {
            libc::AF_INET => Some(SocketAddrV4::new(Ipv4Addr::from(*word), port).into()),
            libc::AF_INET6 => {
                let (address, rest) = rest.split_first_chunk::<16>()?;
                let scope = u32::from_ne_bytes(*rest.first_chunk::<4>()?);
                // The IPv6 flow label is left out, because it does not identify the peer.
                Some(SocketAddrV6::new(Ipv6Addr::from(*address), port, 0, scope).into())
            }
            _ => None,
        }
    }
}

/// Information from the kernel about one received message.
#[derive(Debug)]
pub(crate) struct Arrival {
    from: RawAddress,
    from_length: usize,
    /// Control messages: the length of each merged datagram (`UDP_GRO`), and the receive time.
    ancillary: Ancillary<64>,
    /// Number of payload bytes received, at most the room that was given.
    pub(crate) length: usize,
    /// True if the message was longer than the room that was given.
    pub(crate) truncated: bool,
}

impl Arrival {
    /// Creates room for one datagram's address and facts.
    pub(crate) const fn new() -> Self {
        Self {
            from: RawAddress([0; ADDRESS]),
            from_length: 0,
            ancillary: Ancillary::new(),
            length: 0,
            truncated: false,
        }
    }

    /// Returns the time that the message waited in the kernel; `None` if the socket has no receive
    /// times.
    pub(crate) fn waited(&self) -> Option<Duration> {
        stamps::waited(sys_txtime::stamp(&self.ancillary)?)
    }

    /// Returns the address of the sender.
    pub(crate) fn from(&self) -> Option<SocketAddr> {
        self.from.read(self.from_length)
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
mod platform {
    use std::{
        ffi::c_int,
        io,
        os::fd::{AsRawFd as _, BorrowedFd},
        ptr,
    };

    use super::{ADDRESS, Arrival, MAX_BATCH};
    use crate::sys_option::{get, set};

    // libc lacks these constants of `linux/udp.h`.
    const UDP_NO_CHECK6_TX: c_int = 101;
    const UDP_NO_CHECK6_RX: c_int = 102;
    const UDP_GRO: c_int = 104;

    /// `linux/sock_diag.h`.
    const SK_MEMINFO_VARS: usize = 9;
    const SK_MEMINFO_DROPS: usize = 8;

    impl Arrival {
        /// Returns the length of each datagram that the kernel merged into this message; `None` if
        /// the message is a single datagram. The kernel writes the length in `udp_cmsg_recv`
        /// (`include/linux/udp.h`).
        pub(crate) fn stride(&self) -> Option<usize> {
            let mut stride = None;
            self.ancillary.each(|level, kind, data| {
                if (level, kind) == (libc::SOL_UDP, UDP_GRO) {
                    stride = data.try_into().ok().map(i32::from_ne_bytes);
                }
            });
            stride.and_then(|stride| usize::try_from(stride).ok()).filter(|stride| *stride > 0)
        }
    }

    /// Receives waiting messages, each into `room` bytes of `rooms` and with its metadata in one
    /// element of `arrivals`, and returns their number.
    pub(crate) fn receive_batch(
        socket: BorrowedFd<'_>,
        rooms: &mut [u8],
        room: usize,
        arrivals: &mut [Arrival],
    ) -> io::Result<usize> {
        let mut slices = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; MAX_BATCH];
        // SAFETY: `mmsghdr` is plain numbers and pointers, for which zero is a value.
        let mut messages: [libc::mmsghdr; MAX_BATCH] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        let parts = messages.iter_mut().zip(&mut slices);
        for ((message, slice), (arrival, room)) in
            parts.zip(arrivals.iter_mut().zip(rooms.chunks_exact_mut(room)))
        {
            *slice = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
            let header = &mut message.msg_hdr;
            header.msg_iov = slice;
            header.msg_iovlen = 1;
            header.msg_name = (&raw mut arrival.from.0).cast();
            header.msg_namelen = ADDRESS as libc::socklen_t;
            header.msg_control = arrival.ancillary.bytes.as_mut_ptr().cast();
            header.msg_controllen = arrival.ancillary.bytes.len() as _;
            count += 1;
        }
        #[allow(clippy::unnecessary_cast, reason = "not an int with every C library")]
        let flags = libc::MSG_DONTWAIT as _;
        // SAFETY: the first `count` messages point to slices, addresses and ancillary data that are
        // valid and exclusively borrowed during the call; the kernel writes only within the given
        // lengths.
        let received = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count, flags, ptr::null_mut())
        };
        let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
        for (message, arrival) in messages.iter().zip(arrivals.iter_mut()).take(received) {
            let header = &message.msg_hdr;
            arrival.from_length = (header.msg_namelen as usize).min(ADDRESS);
            #[allow(clippy::unnecessary_cast, reason = "not a usize with every C library")]
            let ancillary = header.msg_controllen as usize;
            arrival.ancillary.length = ancillary.min(arrival.ancillary.bytes.len());
            arrival.length = (message.msg_len as usize).min(room);
            arrival.truncated = header.msg_flags & libc::MSG_TRUNC != 0;
        }
        Ok(received)
    }

    /// Lets the kernel merge consecutive datagrams of one sender into one message (`UDP_GRO`).
    pub(crate) fn set_gro(socket: BorrowedFd<'_>) -> io::Result<()> {
        set(socket, libc::SOL_UDP, UDP_GRO, &1i32)
    }

    /// Makes a socket send datagrams without UDP checksums, and accept such datagrams.
    pub(crate) fn set_no_checksum(socket: BorrowedFd<'_>, is_v4: bool) -> io::Result<()> {
        if is_v4 {
            return set(socket, libc::SOL_SOCKET, libc::SO_NO_CHECK, &1i32);
        }
        set(socket, libc::SOL_UDP, UDP_NO_CHECK6_TX, &1i32)?;
        set(socket, libc::SOL_UDP, UDP_NO_CHECK6_RX, &1i32)
    }

    /// Sets the receive buffer beyond the system's limit; needs CAP_NET_ADMIN.
    pub(crate) fn force_receive_buffer(socket: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
        set(socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &bytes)
    }

    /// Sets the send buffer beyond the system's limit; needs CAP_NET_ADMIN.
    pub(crate) fn force_send_buffer(socket: BorrowedFd<'_>, bytes: i32) -> io::Result<()> {
        set(socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &bytes)
    }

    /// Returns the number of messages, modulo 2^32, that the socket has dropped because its buffer
    /// was full or a checksum was wrong.
    pub(crate) fn receive_drops(socket: BorrowedFd<'_>) -> io::Result<u32> {
        let counters: [u32; SK_MEMINFO_VARS] = get(socket, libc::SOL_SOCKET, libc::SO_MEMINFO)?;
        Ok(counters[SK_MEMINFO_DROPS])
    }
}

#[cfg(not(target_os = "linux"))]
mod platform {
    use std::{io, os::fd::BorrowedFd};

    use super::Arrival;

    fn no<T>() -> io::Result<T> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "lanes over UDP are supported on Linux only"))
    }

    impl Arrival {
        pub(crate) fn stride(&self) -> Option<usize> {
            None
        }
    }

    pub(crate) fn receive_batch(
        _: BorrowedFd<'_>,
        _: &mut [u8],
        _: usize,
        _: &mut [Arrival],
    ) -> io::Result<usize> {
        no()
    }

    pub(crate) fn set_gro(_: BorrowedFd<'_>) -> io::Result<()> {
        no()
    }

    pub(crate) fn set_no_checksum(_: BorrowedFd<'_>, _: bool) -> io::Result<()> {
        no()
    }

    pub(crate) fn force_receive_buffer(_: BorrowedFd<'_>, _: i32) -> io::Result<()> {
        no()
    }

    pub(crate) fn force_send_buffer(_: BorrowedFd<'_>, _: i32) -> io::Result<()> {
        no()
    }

    pub(crate) fn receive_drops(_: BorrowedFd<'_>) -> io::Result<u32> {
        no()
    }
}

/// Types that own one file descriptor: `as_raw_fd` always returns this descriptor, and the
/// descriptor is closed only when its owner is dropped.
pub(crate) trait Owned: AsRawFd {}

impl Owned for DatagramSender {}
impl Owned for OwnedFd {}

/// Registers a socket with the tokio runtime for the given kind of readiness.
#[allow(unsafe_code)]
pub(crate) fn watched<T: Owned>(socket: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    // SAFETY: the descriptor stays the same and open for as long as its owner lives, as `Owned`
    // requires.
    let watched = unsafe { AsyncFd::register_with_interest(socket, interest) };
    watched.map_err(|error| error.into_parts().1)
}

pub(crate) use platform::{
    force_receive_buffer, force_send_buffer, receive_batch, receive_drops, set_gro, set_no_checksum,
};
