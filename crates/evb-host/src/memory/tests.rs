use evb_core::units::Bytes;

use super::{machine_memory, mem_total};

#[test]
fn reads_meminfo() {
    assert_eq!(mem_total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(Bytes::mib(16)));
    assert_eq!(mem_total("MemFree: 1 kB\n"), None);
    assert_eq!(mem_total("MemTotal: many kB\n"), None);
}

#[test]
#[cfg(target_os = "linux")]
fn this_machine_has_memory() {
    assert!(machine_memory().is_some_and(|memory| memory > Bytes::mib(64)));
}
