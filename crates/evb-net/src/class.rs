//! [`TrafficClass`]: the marks by which switches and queueing disciplines tell traffic apart.

#[cfg(test)]
mod tests;

use std::{io, os::fd::BorrowedFd};

/// The marks of a connection's packets; what is `None` is left to the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficClass {
    /// The six bits in the IP header by which switches and routers classify (RFC 2474).
    pub dscp: Option<u8>,
    /// `SO_PRIORITY`, by which the queueing disciplines of this host classify (`prio`, `mqprio`,
    /// and `htb` by `major:minor`), and which a VLAN device maps to its priority bits. A value
    /// above 6 needs CAP_NET_ADMIN.
    pub priority: Option<u32>,
}

impl TrafficClass {
    /// Marks a socket. A priority that is not permitted is reported, and left.
    ///
    /// # Errors
    /// The system's, on a socket that is broken already.
    #[cfg(target_os = "linux")]
    pub fn apply(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let socket = socket2::SockRef::from(&socket);
        if let Some(dscp) = self.dscp {
            let class = u32::from(dscp) << 2;
            let is_v4 = socket.domain()? == socket2::Domain::IPV4;
            if is_v4 { socket.set_tos_v4(class) } else { socket.set_tclass_v6(class) }?;
        }
        // This follows the type of service, which sets a priority too: one of four that it derives.
        if let Some(priority) = self.priority
            && let Err(error) = socket.set_priority(priority)
        {
            if error.kind() != io::ErrorKind::PermissionDenied {
                return Err(error);
            }
            tracing::warn!(
                priority,
                "cannot set this socket priority without CAP_NET_ADMIN; priorities 0 to 6 need no privilege"
            );
        }
        Ok(())
    }

    /// Marks a socket: on Linux only.
    ///
    /// # Errors
    /// None.
    #[cfg(not(target_os = "linux"))]
    pub fn apply(&self, _socket: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }
}
