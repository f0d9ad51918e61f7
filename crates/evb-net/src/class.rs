//! [`TrafficClass`]: the marks by which switches and queueing disciplines tell traffic apart.

#[cfg(test)]
mod tests;

use std::{io, os::fd::BorrowedFd};

/// Marks of a connection's packets; where a mark is `None`, the operating system's default applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficClass {
    /// Differentiated services code point: the six bits in the IP header by which switches and
    /// routers classify packets (RFC 2474).
    pub dscp: Option<u8>,
    /// Value of the socket option `SO_PRIORITY`, by which the queueing disciplines of this host
    /// classify packets (`prio`, `mqprio`, and `htb` by `major:minor`), and which a VLAN device
    /// maps to the priority bits of its tags. A priority above 6 needs CAP_NET_ADMIN.
    pub priority: Option<u32>,
}

impl TrafficClass {
    /// Sets these marks on a socket. If this process may not set the priority, a warning says so
    /// and the priority stays unchanged.
    ///
    /// # Errors
    /// An I/O error of the operating system, if the socket is no longer usable.
    #[cfg(target_os = "linux")]
    pub fn apply(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let socket = socket2::SockRef::from(&socket);
        if let Some(dscp) = self.dscp {
            let class = u32::from(dscp) << 2;
            let is_v4 = socket.domain()? == socket2::Domain::IPV4;
            if is_v4 { socket.set_tos_v4(class) } else { socket.set_tclass_v6(class) }?;
        }
        // The priority is set after the type of service, because the kernel overwrites the priority
        // with one of four derived values when the type of service is set.
        if let Some(priority) = self.priority
            && let Err(error) = socket.set_priority(priority)
        {
            if error.kind() != io::ErrorKind::PermissionDenied {
                return Err(error);
            }
            tracing::warn!(
                priority,
                "this process cannot give its packets the priority {priority} without CAP_NET_ADMIN, so they have none, and the run goes on; grant CAP_NET_ADMIN to evbd, or write a `socket_priority` of at most 6 in [shaping.classes]"
            );
        }
        Ok(())
    }

    /// Does nothing, because sockets are marked on Linux only.
    ///
    /// # Errors
    /// None.
    #[cfg(not(target_os = "linux"))]
    pub fn apply(&self, _socket: BorrowedFd<'_>) -> io::Result<()> {
        Ok(())
    }
}
