//! [`DatagramSocket`]: both directions of one socket.

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

/// A UDP socket of a lane's source, or of a builder, that never blocks. One task owns it: the one
/// that polled it last is woken.
#[derive(Debug)]
pub struct DatagramSocket {
    /// The descriptor, watched for input only: watched for room too, each datagram that leaves this
    /// host would wake the task.
    io: AsyncFd<DatagramSender>,
    /// While the socket is full: the same, watched for room.
    room: Option<AsyncFd<OwnedFd>>,
    is_v4: bool,
    buffers: Buffers,
    pool: Pool,
    counts: UdpCounts,
    /// The kernel's counter of drops at its last reading, and the total.
    dropped: (u32, u64),
}

impl DatagramSocket {
    pub(super) fn over(sender: DatagramSender, is_v4: bool, buffers: Buffers) -> io::Result<Self> {
        Ok(Self {
            io: sys_udp::watched(sender, Interest::READABLE)?,
            room: None,
            is_v4,
            buffers,
            pool: Pool::new(),
            counts: UdpCounts::default(),
            dropped: (0, 0),
        })
    }

    /// Takes waiting datagrams and calls `each` with every one and its sender, in the order of
    /// arrival, until none is left or at least `budget` were taken; in that case there may be more.
    ///
    /// Reports by ICMP on datagrams sent earlier are counted on receiving. Allocates nothing.
    ///
    /// # Errors
    /// The system's, on a socket that is broken.
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
                // The kernel tells tokio of the next that comes.
                (datagrams, Progress::Drained) => {
                    ready.clear_ready();
                    taken += datagrams;
                }
            }
        }
        Ok(Progress::More)
    }

    /// Receives without asking tokio, which learns of arrivals only while the task is not busy: for
    /// a caller that must know that nothing has arrived.
    ///
    /// # Errors
    /// The system's, on a socket that is broken.
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
    /// [`DatagramSender::send_train`] does. After [`SendError::Full`] wait by
    /// [`poll_writable`](Self::poll_writable).
    ///
    /// # Errors
    /// [`SendError`]; nothing was sent.
    pub fn send_train(
        &mut self,
        slices: &[IoSlice<'_>],
        segment: u16,
        at: Option<Instant>,
    ) -> Result<usize, SendError> {
        let outcome = self.io.get_mut().send_train(slices, segment, at);
        self.room = match outcome {
            // Each wait registers again: room that became free meanwhile counts as well.
            Err(SendError::Full) => {
                Some(sys_udp::watched(self.as_fd().try_clone_to_owned()?, Interest::WRITABLE)?)
            }
            _ => None,
        };
        outcome
    }

    /// Ready when a train is worth trying after [`SendError::Full`].
    ///
    /// # Errors
    /// The runtime is shutting down.
    pub fn poll_writable(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(room) = &self.room {
            ready!(room.poll_write_ready(cx))?.retain_ready();
        }
        self.room = None;
        Poll::Ready(Ok(()))
    }

    /// Sends one datagram to `peer`, and returns false if this host has no room for it now: that is
    /// counted, and a caller that needs it to arrive repeats it. It comes from the address that the
    /// socket is bound to. If that is the unspecified one, it comes from the address that the route
    /// to `peer` prefers, which a connected peer does not accept if it knows this host by another.
    ///
    /// # Errors
    /// [`SendError::TooLarge`], or the system's: there is no way to that peer.
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

    /// Has `executor` prepare a connected socket for at most `rate`, so that trains leave at their
    /// departure times.
    ///
    /// # Errors
    /// The system's: the executor's options are not permitted.
    pub fn prepare(&mut self, executor: &dyn Executor, rate: Option<Rate>) -> io::Result<()> {
        self.io.get_mut().prepare(executor, rate)
    }

    /// Returns the counts so far. It also reads the reports of trains whose departure time was
    /// missed: unread ones take room of the receive buffer (`sock_queue_err_skb`), so with
    /// departure times it must be called now and then.
    ///
    /// # Errors
    /// The system's, on a socket that is broken.
    pub fn counts(&mut self) -> io::Result<UdpCounts> {
        Ok(UdpCounts { trains: self.io.get_mut().collect()?, ..self.counts })
    }

    /// Returns the messages that the kernel has dropped because the reader was slow, or for a wrong
    /// checksum (`SO_MEMINFO`). A run of merged datagrams counts as one.
    ///
    /// # Errors
    /// The system's: it does not count them.
    pub fn receive_drops(&mut self) -> io::Result<u64> {
        let now = sys_udp::receive_drops(self.as_fd())?;
        let (before, total) = self.dropped;
        self.dropped = (now, total + u64::from(now.wrapping_sub(before)));
        Ok(self.dropped.1)
    }

    /// Samples the time that datagrams wait in the kernel ([`Run::waited`]), where it reports
    /// receive times.
    pub fn sample_waits(&mut self) {
        if stamps::stamp(self.as_fd()) {
            self.pool.take_samples();
        }
    }

    /// Returns the state of the kernel's cutting of trains into datagrams.
    pub fn gso(&self) -> GsoState {
        self.io.get_ref().gso()
    }

    /// Returns the sizes of its buffers.
    pub fn buffers(&self) -> Buffers {
        self.buffers
    }

    /// Returns the largest IP packet that, as far as the kernel knows, reaches the peer of a
    /// connected socket: the device's MTU, or a smaller one learnt from a route or a router.
    /// Headers take 28 B of it (IPv6: 48 B).
    ///
    /// # Errors
    /// The system's: the socket is not connected.
    pub fn mtu(&self) -> io::Result<u32> {
        sys_path::path_mtu(&SockRef::from(self.io.get_ref()), self.is_v4)
    }

    /// Returns the address on which it listens, and from which it sends.
    ///
    /// # Errors
    /// The system's, on a socket that is broken.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }
}

/// Takes one batch: how many datagrams, and whether the kernel may have more.
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
