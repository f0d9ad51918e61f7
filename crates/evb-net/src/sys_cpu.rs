//! Where and when threads run: `sched_setaffinity(2)`, `sched_setscheduler(2)`, `setpriority(2)`.

use std::io;

/// Pins the calling thread to one core.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn pin_to_core(core: usize) -> io::Result<()> {
    // SAFETY: `cpu_set_t` is plain bits, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: `core` is below CPU_SETSIZE, the number of bits in the set.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: `set` is valid during the call, and its size is given.
    let result = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn pin_to_core(_core: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Makes the calling thread real-time (`SCHED_FIFO`) with the given priority; threads that it
/// starts do not inherit this scheduling.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn schedule_real_time(priority: i32) -> io::Result<()> {
    // The kernel's `sched_param` consists of the priority. The functions of musl for these system
    // calls always fail, because POSIX defines them for processes and Linux for threads.
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `priority` is valid during the call, and 0 stands for the calling thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn schedule_real_time(_priority: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns true if the calling thread is real-time.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn is_real_time() -> bool {
    // SAFETY: the call takes only a number; 0 stands for the calling thread.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    let policy = policy & !libc::c_long::from(libc::SCHED_RESET_ON_FORK);
    [libc::SCHED_FIFO, libc::SCHED_RR].map(libc::c_long::from).contains(&policy)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_real_time() -> bool {
    false
}

/// Returns the `nice` value of the calling thread, -20 (greatest weight) to 19.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn nice() -> i32 {
    // SAFETY: the call takes only numbers; 0 stands for the calling thread. `getpriority` fails
    // only for threads that do not exist.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn nice() -> i32 {
    0
}

/// Sets the `nice` value of the calling thread, from -20 (greatest weight) to 19.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
pub(crate) fn set_nice(nice: i32) -> io::Result<()> {
    // SAFETY: the call takes only numbers; on Linux, 0 stands for the calling thread and not for
    // its process (setpriority(2), "C library/kernel differences").
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn set_nice(_nice: i32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
