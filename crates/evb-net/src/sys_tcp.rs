//! The kernel's figures on a TCP connection: `TCP_INFO` (Linux, `include/uapi/linux/tcp.h`).

use std::time::Duration;

use tokio::net::TcpStream;

/// Returns the kernel's statistics of a TCP connection.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn info(stream: &TcpStream) -> Option<libc::tcp_info> {
    use std::os::fd::AsRawFd as _;

    // SAFETY: `tcp_info` is plain numbers, for which zero is a value.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the descriptor is open as long as `stream` lives; the kernel writes at most `length`
    // bytes to `info`.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    (result == 0).then_some(info)
}

/// Returns the number of segments that this host has retransmitted since the connection began;
/// `None` where the system does not report it.
#[cfg(target_os = "linux")]
pub(crate) fn retransmits(stream: &TcpStream) -> Option<u64> {
    info(stream).map(|info| info.tcpi_total_retrans.into())
}

/// Returns the connection's round-trip time, as smoothed by the kernel; `None` if the kernel does
/// not report it or has not measured it yet.
#[cfg(target_os = "linux")]
pub(crate) fn round_trip(stream: &TcpStream) -> Option<Duration> {
    let micros = info(stream)?.tcpi_rtt;
    (micros > 0).then(|| Duration::from_micros(micros.into()))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn retransmits(_stream: &TcpStream) -> Option<u64> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn round_trip(_stream: &TcpStream) -> Option<Duration> {
    None
}
