//! The sizes of buffers that the kernel grants to sockets, measured on sockets that this module
//! opens.

#[cfg(test)]
mod tests;

use std::io;

use evb_core::units::Bytes;
use evb_net::host::{Fact, Unavailable};
use socket2::{Domain, Protocol, Socket, Type};

/// A requested buffer size, and the size that the kernel granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Size that was requested.
    pub(crate) asked: Bytes,
    /// Size that the kernel granted: half of the size that it reports, since the kernel doubles the
    /// granted size for its own bookkeeping (socket(7)).
    pub(crate) got: Bytes,
}

/// Requests a receive buffer (`SO_RCVBUF`) on a new UDP socket, and reads the granted size back.
///
/// # Errors
/// Fails if no socket can be created.
pub(crate) fn receive_buffer(asked: Bytes) -> Fact<Asked> {
    let got = || {
        let socket = udp()?;
        socket.set_recv_buffer_size(asked.as_usize())?;
        socket.recv_buffer_size()
    };
    measured(asked, got())
}

/// Requests a send buffer (`SO_SNDBUF`) on a new UDP socket, and reads the granted size back.
///
/// # Errors
/// Fails if no socket can be created.
pub(crate) fn send_buffer(asked: Bytes) -> Fact<Asked> {
    let got = || {
        let socket = udp()?;
        socket.set_send_buffer_size(asked.as_usize())?;
        socket.send_buffer_size()
    };
    measured(asked, got())
}

/// Returns the size of the buffer that a socket got. The kernel reports twice the size, to have
/// room for its own data.
fn measured(asked: Bytes, got: io::Result<usize>) -> Fact<Asked> {
    match got {
        Ok(doubled) => Ok(Asked { asked, got: Bytes::new(doubled as u64 / 2) }),
        Err(error) => Err(Unavailable::from_io(
            format_args!("a UDP socket with a buffer of {asked} cannot be made"),
            &error,
        )),
    }
}

fn udp() -> io::Result<Socket> {
    Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))
}
