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

/// One datagram as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The kernel's time stamp at its arrival from the device, on the host's monotonic clock.
    pub at: Instant,
    /// Bytes of payload.
    pub length: usize,
    /// False: the kernel gave no time stamp, and `at` is when this program had it.
    pub stamped: bool,
}

/// A UDP socket that notes when each datagram came, independent of when this program runs.
#[derive(Debug)]
pub struct GapReceiver {
    socket: UdpSocket,
    room: Vec<u8>,
    /// Offset that turns a time of `CLOCK_REALTIME` into one of the monotonic clock; a clock that
    /// is set during the measurement is not compensated for.
    from_realtime: i64,
}

impl GapReceiver {
    /// Listens; port 0 lets the system choose. `buffer` is the socket's receive buffer where given.
    ///
    /// # Errors
    /// The system's: the address is not ours, or taken.
    pub fn bind(local: SocketAddr, buffer: Option<Bytes>) -> io::Result<Self> {
        let socket = UdpSocket::bind(local)?;
        if let Some(buffer) = buffer {
            SockRef::from(&socket).set_recv_buffer_size(buffer.as_usize())?;
        }
        sys_txtime::set_receive_stamps(socket.as_fd())?;
        Ok(Self { socket, room: vec![0; 1 << 16], from_realtime: clock::from_realtime() })
    }

    /// Returns the address on which it listens.
    ///
    /// # Errors
    /// The system's, on a socket that is broken already.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Waits for the next datagram; `None` if none comes in `patience`.
    ///
    /// # Errors
    /// The system's.
    pub fn receive(&mut self, patience: Duration) -> io::Result<Option<Receipt>> {
        // Zero would mean for ever.
        self.socket.set_read_timeout(Some(patience.max(Duration::from_micros(1))))?;
        match sys_txtime::receive(self.socket.as_fd(), &mut self.room) {
            Ok(received) => {
                let stamp =
                    received.realtime.map(|nanos| Instant::from_nanos(nanos).shifted(self.from_realtime));
                let at = stamp.unwrap_or_else(clock::now);
                Ok(Some(Receipt { at, length: received.length, stamped: stamp.is_some() }))
            }
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The bytes of the datagram received last.
    pub fn payload(&self, receipt: &Receipt) -> &[u8] {
        self.room.get(..receipt.length).unwrap_or_default()
    }
}

impl AsFd for GapReceiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
