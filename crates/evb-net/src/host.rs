//! Facts about this machine: its identity, and the settings of its kernel and its network devices.
//!
//! Each fact is read or measured when asked for. This module judges nothing, and changes nothing
//! except the scheduling and the power saving of the host when a role requests this for itself, and
//! files that evb writes ([`WholeFile`]). A fact that cannot be read is [`Unavailable`] with the
//! reason, never a guess.

mod awake;
mod fact;
mod whole;
#[cfg(target_os = "linux")]
mod netlink;
pub mod kernel;
pub mod qdisc;
pub mod route;
pub mod address;
pub mod link;
pub mod sockets;
pub mod echo;
pub mod clocks;

pub use awake::{Awake, keep_awake};
pub use fact::{Fact, Unavailable, setting, setting_number, text_of};
pub use whole::{WholeFile, write_whole};

/// Blocks SIGPIPE and SIGXFSZ in the calling thread and in the threads that it starts from now on:
/// a write to a closed connection, or beyond the limit of a file's size, then fails and does not
/// end the process.
pub fn block_signals_of_writes() {
    crate::sys_signals::block_signals_of_writes();
}

/// Returns true in a child that was forked after the first call of this function. A fork copies no
/// thread, so evb cannot work in the child.
pub fn is_forked_child() -> bool {
    crate::sys_fork::is_forked_child()
}

/// Returns the kernel's identifier of the current boot, or an empty text where the system has none.
/// Processes with the same boot identifier share the monotonic clock.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().chars().take(64).collect())
        .unwrap_or_default()
}

/// Sends a request of ethtool(8) to the driver of a network device. The first word of a request is
/// its command; the words of the answer are laid out as in linux/ethtool.h.
///
/// # Errors
/// Fails if the device does not exist, its driver does not support the request, or this process may
/// not make it.
pub fn ask_driver(device: &str, request: &[u32]) -> Fact<Vec<u32>> {
    crate::sys_ethtool::ask(device, request).map_err(|error| Unavailable::new(fact::in_words(&error)))
}

/// Pins the calling thread to the core with this number, counted from 0.
///
/// # Errors
/// Fails if the core does not exist, or if this process may not run on it.
pub fn pin_to_core(core: usize) -> std::io::Result<()> {
    crate::sys_cpu::pin_to_core(core)
}

/// The `nice` value of threads that take precedence where real-time scheduling is not permitted:
/// the kernel gives a thread with -10 nine times the weight of a thread with 0
/// (`sched_prio_to_weight`, kernel/sched/core.c).
pub const PRECEDENCE: i32 = -10;

/// Means by which a thread takes precedence over others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// Real-time scheduling (`SCHED_FIFO`, with the lowest priority, or the priority that the
    /// thread has already): the kernel wakes the thread at once. Other threads that wait for the
    /// core get a twentieth of its time (the fair server of kernel/sched/deadline.c).
    RealTime,
    /// A `nice` value of [`PRECEDENCE`]: the thread gets a larger share of the core, but the
    /// scheduler decides when to wake it.
    Nice,
}

/// Gives the calling thread precedence over ordinary threads of its core. The thread becomes
/// real-time if this process may do so (`CAP_SYS_NICE`, or a limit: `LimitRTPRIO=1` of a unit,
/// `ulimit -r 1`) and the kernel supports it
/// ([`is_real_time_smooth`](kernel::is_real_time_smooth)); else its `nice` value becomes
/// [`PRECEDENCE`] (`LimitNICE=-10`, `ulimit -e 30`). A thread that already has more precedence
/// keeps it.
///
/// # Errors
/// An error of the operating system, usually because the process may change neither.
pub fn take_precedence() -> std::io::Result<Precedence> {
    if crate::sys_cpu::is_real_time() {
        return Ok(Precedence::RealTime);
    }
    if kernel::is_real_time_smooth() && crate::sys_cpu::schedule_real_time(1).is_ok() {
        return Ok(Precedence::RealTime);
    }
    if crate::sys_cpu::nice() > PRECEDENCE {
        crate::sys_cpu::set_nice(PRECEDENCE)?;
    }
    Ok(Precedence::Nice)
}

/// Makes the calling thread real-time (`SCHED_FIFO`, with a priority in the middle of the range),
/// so that the scheduler wakes it at once. The thread must sleep most of its time, or other threads
/// on its core starve. Real-time scheduling needs `CAP_SYS_NICE` or a limit (`ulimit -r`).
///
/// # Errors
/// An error of the operating system, usually because the process may not use real-time scheduling.
pub fn run_in_real_time() -> std::io::Result<()> {
    crate::sys_cpu::schedule_real_time(50)
}
