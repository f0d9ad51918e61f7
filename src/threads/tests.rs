use std::fs;

use super::start;

/// The mask of a thread is inherited, so this shows it for all threads that evb's threads start.
#[test]
fn no_write_ends_a_process_that_embeds_evb() {
    let blocked = || {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    let own = start("test", move || std::thread::spawn(blocked).join().unwrap()).unwrap().join().unwrap();
    // SIGPIPE is signal 13, and SIGXFSZ 25.
    assert_eq!(own & (1 << 12 | 1 << 24), 1 << 12 | 1 << 24);
    assert_eq!(blocked() & (1 << 12 | 1 << 24), 0, "the program's own threads stay as they are");
}
