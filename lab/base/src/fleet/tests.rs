use super::*;

#[test]
fn hosts_play_roles() {
    assert_eq!(role("sup"), "supervisor");
    assert_eq!(role("s12"), "source:12");
    assert_eq!(role("b3"), "builder:3");
}

#[test]
fn cpu_time_is_read_behind_any_name() {
    let stat = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
    assert_eq!(cpu_seconds(stat), Some(2.0));
    assert_eq!(cpu_seconds("42 (x) S 1"), None);
}

#[test]
fn this_process_has_a_peak() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    assert!(memory(&status, "VmHWM:").unwrap() > 100);
    assert_eq!(memory("VmRSS:\t 7 kB\nVmHWM:\t 1234 kB\n", "VmHWM:"), Some(1234));
}
