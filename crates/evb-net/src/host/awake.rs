//! [`Awake`]: cores that do not sleep while something waits for the network.

#[cfg(test)]
mod tests;

use std::{fs::File, io, io::Write as _};

/// File in which a program states the longest wake-up that it tolerates
/// (Documentation/power/pm_qos_interface.rst).
const DEVICE: &str = "/dev/cpu_dma_latency";

/// Keeps idle cores of this machine polling instead of sleeping while it lives. A thread is then
/// woken within a microsecond or two, where a core takes tens to hundreds to leave a deep sleep,
/// and a virtual machine as long to be resumed by its host. It takes no time from other programs,
/// only power.
#[derive(Debug)]
pub struct Awake(#[expect(dead_code, reason = "the kernel holds to it while it is open")] File);

/// Keeps the cores awake.
///
/// # Errors
/// The system's: there is no such device, or it may not be written (by default, root may).
pub fn keep_awake() -> io::Result<Awake> {
    let mut device = File::options().write(true).open(DEVICE)?;
    // In microseconds, as a whole number of four bytes.
    device.write_all(&0i32.to_ne_bytes())?;
    Ok(Awake(device))
}
