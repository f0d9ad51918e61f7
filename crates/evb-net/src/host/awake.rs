//! [`Awake`]: cores that do not sleep while something waits for the network.

#[cfg(test)]
mod tests;

use std::{fs::File, io, io::Write as _};

/// File into which a program writes the longest wake-up latency of cores that it tolerates
/// (Documentation/power/pm_qos_interface.rst).
const DEVICE: &str = "/dev/cpu_dma_latency";

/// Guard that keeps idle cores of this machine polling instead of sleeping, until the guard is
/// dropped. A thread is then woken within a microsecond or two, whereas a core takes tens to
/// hundreds of microseconds to leave a deep sleep, and a virtual machine takes as long to be
/// resumed by its host. Polling costs power, but takes no time from other programs.
#[derive(Debug)]
pub struct Awake(#[expect(dead_code, reason = "the kernel honors the request while the file is open")] File);

/// Keeps idle cores awake until the returned guard is dropped.
///
/// # Errors
/// Fails if the kernel has no such device file, or if this process may not write it (by default,
/// only root may).
pub fn keep_awake() -> io::Result<Awake> {
    let mut device = File::options().write(true).open(DEVICE)?;
    // The kernel expects the latency in microseconds, as an integer of four bytes.
    device.write_all(&0i32.to_ne_bytes())?;
    Ok(Awake(device))
}
