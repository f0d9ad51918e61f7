//! The path MTU of a socket, and the fragmentation of its packets: ip(7), ipv6(7).

use std::io;

use socket2::Socket;

/// Returns the path MTU that the kernel assumes for a connected socket: the size of the largest IP
/// packet that reaches the peer.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn path_mtu(socket: &Socket, is_v4: bool) -> io::Result<u32> {
    use std::os::fd::AsRawFd as _;

    let (level, option) =
        if is_v4 { (libc::IPPROTO_IP, libc::IP_MTU) } else { (libc::IPPROTO_IPV6, libc::IPV6_MTU) };
    let mut mtu: libc::c_int = 0;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open while `socket` lives; the kernel writes at most `length` bytes
    // to `mtu`.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut mtu).cast(), &raw mut length)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    u32::try_from(mtu).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Prevents fragmentation of the socket's packets by this host or by a router, whatever path MTU
/// the kernel has recorded.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn never_fragment(socket: &Socket, is_v4: bool) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;

    let (level, option, value) = if is_v4 {
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)
    };
    // SAFETY: the descriptor is open while `socket` lives; the kernel reads an int from `value`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn path_mtu(_socket: &Socket, _is_v4: bool) -> io::Result<u32> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn never_fragment(_socket: &Socket, _is_v4: bool) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
