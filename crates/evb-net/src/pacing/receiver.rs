//! [`GapReceiver`]: datagrams with their receive times in the kernel, to measure the regularity of
//! their arrival.

#[cfg(test)]
mod tests;

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use evb_core::{time::Instant, units::Bytes};
use socket2::SockRef;

use crate::{clock, sys_txtime};

/// The arrival of one datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Time at which the datagram arrived from the device, by the kernel's time stamp, on the
    /// host's monotonic clock.
    pub at: Instant,
    /// Bytes of payload.
    pub length: usize,
    /// True if the kernel stamped the datagram; otherwise `at` is the time at which this program
    /// read it.
    pub stamped: bool,
}

/// A UDP socket that reports the time at which each datagram arrived, no matter when this program
/// reads it.
#[derive(Debug)]
pub struct GapReceiver {
    socket: UdpSocket,
    room: Vec<u8>,
    /// Nanoseconds to add to a time of `CLOCK_REALTIME` to get the same time on the monotonic
    /// clock; not corrected if `CLOCK_REALTIME` is set during the measurement.
    from_realtime: i64,
}

impl GapReceiver {
    /// Opens a socket that listens at `local`; port 0 lets the system choose a port. `buffer` is
    /// the size of the receive buffer, if given.
    ///
    /// # Errors
    /// Fails if the address does not belong to this host, or is in use.
    pub fn bind(local: SocketAddr, buffer: Option<Bytes>) -> io::Result<Self> {
        let socket = UdpSocket::bind(local)?;
        if let Some(buffer) = buffer {
            SockRef::from(&socket).set_recv_buffer_size(buffer.as_usize())?;
        }
        sys_txtime::set_receive_stamps(socket.as_fd())?;
        Ok(Self { socket, room: vec![0; 1 << 16], from_realtime: clock::from_realtime() })
    }

    /// Returns the address on which this socket listens.
    ///
    /// # Errors
    /// An I/O error of the operating system, if the socket is no longer usable.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Waits for the next datagram; returns `None` if no datagram arrives within `patience`.
    ///
    /// # Errors
    /// Returns the operating system's error.
    pub fn receive(&mut self, patience: Duration) -> io::Result<Option<Receipt>> {
        let until = clock::now() + patience;
        loop {
            // A timeout of zero would mean to wait forever.
            let left = until.since(clock::now()).max(Duration::from_micros(1));
            self.socket.set_read_timeout(Some(left))?;
            match sys_txtime::receive(self.socket.as_fd(), &mut self.room) {
                Ok(received) => {
                    let stamp =
                        received.realtime.map(|nanos| Instant::from_nanos(nanos).shifted(self.from_realtime));
                    let at = stamp.unwrap_or_else(clock::now);
                    return Ok(Some(Receipt { at, length: received.length, stamped: stamp.is_some() }));
                }
                // The kernel never restarts a receive with a timeout after a signal (signal(7)),
                // for example after that of a child process that has ended.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the payload of the datagram received last, whose receipt is `receipt`.
    pub fn payload(&self, receipt: &Receipt) -> &[u8] {
        self.room.get(..receipt.length).unwrap_or_default()
    }
}

impl AsFd for GapReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
