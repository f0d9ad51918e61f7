//! Which machine this is, and what its kernel and its network devices are set to.
//!
//! All of this is read, or measured on the spot. Nothing is judged, and nothing is changed except
//! what a role asks for itself. A fact that cannot be read is [`Unavailable`] with the reason,
//! never a guess.

mod awake;
mod fact;
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

/// Returns a text that is equal for all processes that share a boot, and with it the monotonic
/// clock; empty where the system has none.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|text| text.trim().chars().take(64).collect())
        .unwrap_or_default()
}

/// Asks the driver of a network device a question of ethtool(8). The words of a request begin with
/// its command, and those of the answer are as in linux/ethtool.h.
///
/// # Errors
/// There is no such device, its driver does not support the question, or this process may not ask.
pub fn ask_driver(device: &str, request: &[u32]) -> Fact<Vec<u32>> {
    crate::sys_ethtool::ask(device, request).map_err(|error| Unavailable::new(fact::in_words(&error)))
}

/// Pins the calling thread to one core, counted from 0.
///
/// # Errors
/// The system's: there is no such core, or it is not this process's.
pub fn pin_to_core(core: usize) -> std::io::Result<()> {
    crate::sys_cpu::pin_to_core(core)
}

/// The `nice` value of threads that take precedence where real time is not permitted: the kernel
/// gives -10 nine times the weight of 0 (`sched_prio_to_weight`, kernel/sched/core.c).
pub const PRECEDENCE: i32 = -10;

/// Means by which a thread takes precedence over others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// The thread is woken at once (`SCHED_FIFO`, with the lowest priority, or the one it has
    /// already). The kernel gives waiting threads a twentieth of the core (the fair server of
    /// kernel/sched/deadline.c).
    RealTime,
    /// It is given more of the core, and is woken when the scheduler thinks fit ([`PRECEDENCE`]).
    Nice,
}

/// Gives the calling thread precedence over the others of its core that have none. It is real-time
/// if that is permitted (`CAP_SYS_NICE`, or a limit: `LimitRTPRIO=1` of a unit, `ulimit -r 1`) and
/// the kernel supports it ([`is_real_time_smooth`](kernel::is_real_time_smooth)); else it gets
/// [`PRECEDENCE`] (`LimitNICE=-10`, `ulimit -e 30`). A thread that has more already keeps it.
///
/// # Errors
/// The system's: mostly that neither is permitted.
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

/// Gives the calling thread precedence over all that are not real-time themselves (`SCHED_FIFO`, in
/// the middle of its priorities), so that the scheduler wakes it at once. It must sleep most of its
/// time, or others starve. Needs `CAP_SYS_NICE` or a limit (`ulimit -r`).
///
/// # Errors
/// The system's: mostly that it is not permitted.
pub fn run_in_real_time() -> std::io::Result<()> {
    crate::sys_cpu::schedule_real_time(50)
}
