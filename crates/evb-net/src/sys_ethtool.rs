//! Facts from a network device's driver: the `SIOCETHTOOL` ioctl (linux/ethtool.h,
//! linux/sockios.h).

use std::io;

/// Size of the answer buffer in 32-bit words: 1 MiB, room for 32000 names of 32 bytes, several
/// times more than any driver has.
#[cfg(target_os = "linux")]
const ANSWER: usize = 256 * 1024;

/// Sends an ethtool request to the driver of `device`, and returns the answer. The first word of a
/// request is its command; the kernel overwrites the request with the answer.
///
/// # Errors
/// Returns the system's error: there is no such device, its driver does not support the question,
/// or this process may not ask it.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn ask(device: &str, request: &[u32]) -> io::Result<Vec<u32>> {
    use std::os::fd::AsRawFd as _;

    // linux/sockios.h
    const SIOCETHTOOL: libc::Ioctl = 0x8946;
    let too_long = || io::Error::from(io::ErrorKind::InvalidInput);
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    let mut answer = vec![0u32; ANSWER];
    answer.get_mut(..request.len()).ok_or_else(too_long)?.copy_from_slice(request);
    // SAFETY: `ifreq` is plain numbers and pointers, for which zero is a value.
    let mut asked: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte of the name stays zero, because the kernel reads the name as a C string.
    if device.len() >= asked.ifr_name.len() {
        return Err(too_long());
    }
    for (to, from) in asked.ifr_name.iter_mut().zip(device.bytes()) {
        *to = from as libc::c_char;
    }
    asked.ifr_ifru.ifru_data = answer.as_mut_ptr().cast();
    // SAFETY: the descriptor is open; `asked` is valid during the call, holds a zero-terminated
    // name, and points to `answer`, which is exclusively borrowed and far larger than any answer: a
    // fixed structure of at most a few hundred bytes, or one entry of 8 or 32 bytes for each name,
    // whose number callers limit beforehand to what fits.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut asked) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn ask(_device: &str, _request: &[u32]) -> io::Result<Vec<u32>> {
    Err(io::ErrorKind::Unsupported.into())
}
