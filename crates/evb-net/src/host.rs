//! Which machine this is.

/// A text that is equal for all processes that share a boot, and with it the monotonic clock; empty where the system
/// does not tell.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().chars().take(64).collect())
        .unwrap_or_default()
}

/// Pins the calling thread to one core, counted from 0.
///
/// # Errors
/// The system's: there is no such core, or it is not this process's.
pub fn pin_to_core(core: usize) -> std::io::Result<()> {
    crate::sys_cpu::pin_to_core(core)
}
