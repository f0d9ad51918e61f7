//! A datagram socket that nothing can open, for builds without the feature `udp`.

use std::{io, net::SocketAddr};

use evb_core::units::Rate;

use super::{Buffers, UdpOptions};
use crate::pacing::Executor;

/// A datagram socket.
#[derive(Debug)]
pub enum DatagramSocket {}

/// Refuses to open a socket.
///
/// # Errors
/// `Unsupported`, always.
pub fn open(_: SocketAddr, _: Option<SocketAddr>, _: &UdpOptions) -> io::Result<DatagramSocket> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this program was built without the feature `udp`"))
}

impl DatagramSocket {
    /// Prepares the socket for pacing by the kernel.
    ///
    /// # Errors
    /// None, as there is no socket.
    pub fn prepare(&mut self, _executor: &dyn Executor, _rate: Option<Rate>) -> io::Result<()> {
        match *self {}
    }

    /// Returns the sizes of the socket's buffers.
    pub fn buffers(&self) -> Buffers {
        match *self {}
    }
}
