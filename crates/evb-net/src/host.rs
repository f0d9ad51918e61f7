//! Which machine this is.

/// A text that is equal for all processes that share a boot, and with it the monotonic clock; empty where the system
/// does not tell.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().chars().take(64).collect())
        .unwrap_or_default()
}
