//! [`DatagramSocket`]: sending and receiving on one UDP socket.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    task::{Context, Poll, ready},
};

use evb_core::{time::Instant, units::Rate};
use socket2::SockRef;
use tokio::io::{Interest, unix::AsyncFd};

use super::{
    Buffers, Progress, UdpCounts,
    pool::{Pool, Run},
};
use crate::{
    pacing::{DatagramSender, Executor, GsoState, SendError, is_icmp},
    stamps, sys_path, sys_udp,
};

/// A UDP socket of a lane's source, or of a builder, that never blocks. One task owns the socket:
/// readiness wakes only the task that polled the socket last.
#[derive(Debug)]
pub struct DatagramSocket {
    /// The socket, watched for input only. If the runtime also watched for room in the send buffer,
    /// each datagram that leaves this host would wake the task.
    io: AsyncFd<DatagramSender>,
    /// Duplicate of the descriptor, watched for room in the send buffer while the socket is full.
    room: Option<AsyncFd<OwnedFd>>,
    is_v4: bool,
    buffers: Buffers,
    pool: Pool,
    counts: UdpCounts,
    /// The kernel's 32-bit counter of drops at its last reading.
    last_drops: u32,
    /// Total number of drops.
    drops: u64,
}

impl DatagramSocket {
    /// Creates a socket over the given sender, to be read in this runtime.
    pub(super) fn over(sender: DatagramSender, is_v4: bool, buffers: Buffers) -> io::Result<Self> {
        Ok(Self {
            io: sys_udp::watched(sender, Interest::READABLE)?,
            room: None,
            is_v4,
            buffers,
            pool: Pool::new(),
            counts: UdpCounts::default(),
            last_drops: 0,
            drops: 0,
        })
    }

    /// Receives waiting datagrams and calls `each` with every run of datagrams and its sender, in
    /// the order of arrival, until no datagram is left or at least `budget` datagrams were
    /// received; in the latter case more datagrams may wait.
    ///
    /// ICMP reports about datagrams sent earlier arrive as errors of the receive call, and are
    /// counted. The function allocates no memory.
    ///
    /// # Errors
    /// An I/O error of the operating system, if the socket is no longer usable.
    pub fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        budget: usize,
        mut each: impl FnMut(SocketAddr, Run<'_>),
    ) -> io::Result<Progress> {
        let mut taken = 0;
        while taken < budget {
            let Poll::Ready(ready) = self.io.poll_read_ready(cx) else { return Ok(Progress::Drained) };
            let mut ready = ready?;
            match receive(&mut self.pool, ready.get_inner().as_fd(), &mut self.counts, &mut each)? {
                (datagrams, Progress::More) => taken += datagrams,
                // The socket is drained; the kernel notifies tokio when the next datagram arrives.
                (datagrams, Progress::Idle | Progress::Drained) => {
                    ready.clear_ready();
                    taken += datagrams;
                }
            }
        }
        Ok(Progress::More)
    }

    /// Receives without checking tokio's readiness flag, which is updated only while the task is
    /// not busy. A caller uses this function when it must be sure that nothing has arrived.
    ///
    /// # Errors
    /// An I/O error of the operating system, if the socket is no longer usable.
    pub fn recv(&mut self, budget: usize, mut each: impl FnMut(SocketAddr, Run<'_>)) -> io::Result<Progress> {
        let mut taken = 0;
        while taken < budget {
            let socket = self.io.get_ref().as_fd();
            let (datagrams, progress) = receive(&mut self.pool, socket, &mut self.counts, &mut each)?;
            taken += datagrams;
            if progress == Progress::Drained {
                return Ok(progress);
            }
        }
        Ok(Progress::More)
    }

    /// Sends one train to the peer that the socket is connected to, as
    /// [`DatagramSender::send_train`] does. After [`SendError::Full`], wait with
    /// [`poll_writable`](Self::poll_writable).
    ///
    /// # Errors
    /// Returns a [`SendError`] if nothing was sent.
    pub fn send_train(
        &mut self,
        slices: &[IoSlice<'_>],
        segment: u16,
        at: Option<Instant>,
    ) -> Result<usize, SendError> {
        let outcome = self.io.get_mut().send_train(slices, segment, at);
        self.room = match outcome {
            // Each wait registers the descriptor again, so that room that has become free meanwhile
            // is noticed.
            Err(SendError::Full) => {
                Some(sys_udp::watched(self.as_fd().try_clone_to_owned()?, Interest::WRITABLE)?)
            }
            _ => None,
        };
        outcome
    }

    /// Becomes ready when the socket has room for a further attempt after [`SendError::Full`].
    ///
    /// # Errors
    /// Fails if the runtime is shutting down.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(room) = &self.room {
            ready!(room.poll_write_ready(cx))?.retain_ready();
        }
        self.room = None;
        Poll::Ready(Ok(()))
    }

    /// Sends one datagram to `peer`. Returns false if this host currently has no room for the
    /// datagram: the drop is counted, and a caller that needs the datagram to arrive must repeat
    /// it. The source address is the address to which the socket is bound. If the socket is bound
    /// to the unspecified address, the source address is the one that the route to `peer` prefers;
    /// a connected peer does not accept the datagram if it knows this host by another address.
    ///
    /// # Errors
    /// [`SendError::TooLarge`], or [`SendError::Io`] if there is no route to the peer.
    pub fn send_to(&mut self, peer: SocketAddr, datagram: &[u8]) -> Result<bool, SendError> {
        match self.io.get_mut().send_to(peer, datagram) {
            Ok(_) => {
                self.counts.sent_to += 1;
                Ok(true)
            }
            Err(SendError::Full) => {
                self.counts.dropped_to += 1;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Lets `executor` prepare a connected socket for at most `rate`, so that trains leave at their
    /// departure times.
    ///
    /// # Errors
    /// Fails if the executor's options are not permitted.
    pub fn prepare(&mut self, executor: &dyn Executor, rate: Option<Rate>) -> io::Result<()> {
        self.io.get_mut().prepare(executor, rate)
    }

    /// Returns the counts so far. The function also reads the kernel's reports of trains whose
    /// departure time was missed. Unread reports take room of the receive buffer
    /// (`sock_queue_err_skb`), so a caller that uses departure times must call this function now
    /// and then.
    ///
    /// # Errors
    /// An I/O error of the operating system, if the socket is no longer usable.
    pub fn counts(&mut self) -> io::Result<UdpCounts> {
        Ok(UdpCounts { trains: self.io.get_mut().collect()?, ..self.counts })
    }

    /// Returns the number of messages that the kernel has dropped because the reader was slow or a
    /// checksum was wrong (`SO_MEMINFO`). A run of merged datagrams counts as one message.
    ///
    /// # Errors
    /// Fails if the system does not count dropped messages.
    pub fn receive_drops(&mut self) -> io::Result<u64> {
        let now = sys_udp::receive_drops(self.as_fd())?;
        self.drops += u64::from(now.wrapping_sub(self.last_drops));
        self.last_drops = now;
        Ok(self.drops)
    }

    /// Starts to measure, for a sample of the datagrams, the time that they wait in the kernel
    /// ([`Run::waited`]), if the kernel reports receive times.
    pub fn sample_waits(&mut self) {
        if stamps::stamp(self.as_fd()) {
            self.pool.take_samples();
        }
    }

    /// Returns the state of cutting trains into datagrams in the kernel.
    pub fn gso(&self) -> GsoState {
        self.io.get_ref().gso()
    }

    /// Returns the sizes of the socket's buffers.
    pub fn buffers(&self) -> Buffers {
        self.buffers
    }

    /// Returns the size of the largest IP packet that, as far as the kernel knows, reaches the peer
    /// of a connected socket: the device's MTU, or a smaller MTU learned from a route or a router.
    /// IP and UDP headers take 28 B of each packet (48 B with IPv6).
    ///
    /// # Errors
    /// Fails if the socket is not connected.
    pub fn mtu(&self) -> io::Result<u32> {
        sys_path::path_mtu(&SockRef::from(self.io.get_ref()), self.is_v4)
    }

    /// Returns the address on which this socket listens, and from which it sends.
    ///
    /// # Errors
    /// An I/O error of the operating system, if the socket is no longer usable.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }
}

/// Receives one batch of messages. Returns the number of datagrams, and whether the kernel may have
/// more.
fn receive(
    pool: &mut Pool,
    socket: BorrowedFd<'_>,
    counts: &mut UdpCounts,
    each: &mut impl FnMut(SocketAddr, Run<'_>),
) -> io::Result<(usize, Progress)> {
    match pool.receive(socket) {
        Ok(messages) => {
            let progress = if pool.is_whole(messages) { Progress::More } else { Progress::Drained };
            Ok((pool.hand_on(messages, counts, each), progress))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok((0, Progress::Drained)),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok((0, Progress::More)),
        Err(error) if is_icmp(&error) => {
            counts.icmp += 1;
            counts.too_large_for_path += u64::from(error.raw_os_error() == Some(libc::EMSGSIZE));
            Ok((1, Progress::More))
        }
        Err(error) => Err(error),
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get_ref().as_fd()
    }
}
