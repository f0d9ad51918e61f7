use super::{of_process, of_thread};

#[test]
#[cfg(target_os = "linux")]
fn a_busy_thread_takes_time() {
    let (process, thread) = (of_process().expect("told"), of_thread().expect("told"));
    let start = std::time::Instant::now();
    while of_thread().expect("told") < thread + super::TICK * 3 {
        assert!(start.elapsed().as_secs() < 30, "a busy thread takes no time");
    }
    assert!(of_process().expect("told") >= process + super::TICK * 2);
}
