//! [`Executor`]: one trait, and who implements it.

#[cfg(test)]
mod tests;

use std::{fmt, io, os::fd::BorrowedFd, time::Duration};

use evb_core::units::{Bytes, Rate};

use super::{offload::Offload, spin::SPIN_MARGIN};
use crate::{
    sys_txtime::{self, DepartureClock},
    timer::Timer,
};

/// Makes departure times come true on the sockets that it has prepared.
pub trait Executor: fmt::Debug + Send + Sync {
    /// Which offload this is.
    fn offload(&self) -> Offload;

    /// How long before its departure time it wants a train: zero where the caller waits for the time itself.
    fn lead(&self) -> Duration;

    /// How far from its departure time a train leaves, at the 99th percentile: the T of clustered packet spacing.
    fn precision(&self) -> Duration;

    /// Returns the time between a lane's trains where its burst permits: the precision, or longer where the caller has to wake
    /// up for each.
    fn spacing(&self) -> Duration {
        self.precision()
    }

    /// Sets on a connected socket what it needs. `rate` is the lane's ceiling, in the bytes that the kernel counts: payload
    /// for TCP, layer 2 for UDP.
    ///
    /// # Errors
    /// The system's: the option is unknown or not permitted; a rate is missing where one is needed.
    fn prepare(&self, socket: BorrowedFd<'_>, rate: Option<Rate>) -> io::Result<()>;

    /// The timer by which the caller waits until [`lead`](Self::lead) before a departure.
    ///
    /// # Errors
    /// When the process has no file descriptors left.
    fn timer(&self) -> io::Result<Timer> {
        Timer::new()
    }

    /// The clock of the departure times that datagrams carry; `None` if they carry none and leave when they are sent.
    fn clock(&self) -> Option<DepartureClock> {
        None
    }
}

/// The caller waits by a timer, or spins through the last microseconds, and sends at the departure time.
#[derive(Clone, Copy, Debug)]
pub struct Software {
    margin: Duration,
    precision: Duration,
}

impl Software {
    /// The 99th percentile of a `timerfd`'s lateness on a loaded host; [`prove`](super::prove) measures that of this one.
    const TIMER_PRECISION: Duration = Duration::from_micros(100);
    /// Each departure by a timer wakes the sender and the receiver, which costs more than the packets of a millisecond.
    const TIMER_SPACING: Duration = Duration::from_millis(1);
    /// The 99th percentile of a spinning thread's lateness.
    const SPIN_PRECISION: Duration = Duration::from_micros(5);

    /// Waits by a `timerfd`.
    pub const fn timer() -> Self {
        Self { margin: Duration::ZERO, precision: Self::TIMER_PRECISION }
    }

    /// Spins through the last [`SPIN_MARGIN`]. Ask [`spin_allowed`](super::spin_allowed) first.
    pub const fn spinning() -> Self {
        Self { margin: SPIN_MARGIN, precision: Self::SPIN_PRECISION }
    }

    /// The same with a precision that was measured.
    #[must_use]
    pub const fn with_precision(self, precision: Duration) -> Self {
        Self { precision, ..self }
    }

    /// Whether it spins.
    pub const fn spins(&self) -> bool {
        !self.margin.is_zero()
    }
}

impl Executor for Software {
    fn offload(&self) -> Offload {
        Offload::Software
    }

    fn lead(&self) -> Duration {
        Duration::ZERO
    }

    fn precision(&self) -> Duration {
        self.precision
    }

    fn spacing(&self) -> Duration {
        if self.spins() { self.precision } else { self.precision.max(Self::TIMER_SPACING) }
    }

    fn prepare(&self, _socket: BorrowedFd<'_>, _rate: Option<Rate>) -> io::Result<()> {
        Ok(())
    }

    fn timer(&self) -> io::Result<Timer> {
        if self.spins() { Timer::new_spinning(self.margin) } else { Timer::new() }
    }
}

/// Datagrams carry their departure time, and `fq` keeps them until then. A late one leaves at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Txtime;

impl Executor for Txtime {
    fn offload(&self) -> Offload {
        Offload::Txtime
    }

    /// Ten turns of a busy driver; and far below the 10 s beyond which `fq` drops.
    fn lead(&self) -> Duration {
        Duration::from_millis(2)
    }

    /// `fq` lets its timer go off up to 10 µs late so as to join wake-ups (`timer_slack`), to which the interrupt adds.
    fn precision(&self) -> Duration {
        Duration::from_micros(20)
    }

    fn prepare(&self, socket: BorrowedFd<'_>, _rate: Option<Rate>) -> io::Result<()> {
        sys_txtime::set_txtime(socket, DepartureClock::Monotonic)
    }

    fn clock(&self) -> Option<DepartureClock> {
        Some(DepartureClock::Monotonic)
    }
}

/// Datagrams carry their departure time on `CLOCK_TAI`, and `etf` keeps them until then. One that is late is dropped: it
/// suits who would rather lose than disturb, and is never chosen by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Etf;

impl Executor for Etf {
    fn offload(&self) -> Offload {
        Offload::Etf
    }

    /// More than [`Txtime`]'s: here lateness costs the train.
    fn lead(&self) -> Duration {
        Duration::from_millis(5)
    }

    fn precision(&self) -> Duration {
        Duration::from_micros(20)
    }

    fn prepare(&self, socket: BorrowedFd<'_>, _rate: Option<Rate>) -> io::Result<()> {
        sys_txtime::set_txtime(socket, DepartureClock::Tai)
    }

    fn clock(&self) -> Option<DepartureClock> {
        Some(DepartureClock::Tai)
    }
}

/// The kernel paces the socket. The shaper goes on deciding departure times, and lets trains go a little ahead of them, so
/// that the kernel never runs dry; what it smooths is the space between.
#[derive(Clone, Copy, Debug)]
pub struct SocketRate {
    unsent: Bytes,
    lead: Duration,
}

impl SocketRate {
    /// What the kernel sends as one piece when it has the data: a millisecond's worth (`sk_pacing_shift`).
    const PIECE: Duration = Duration::from_millis(1);

    /// With at most so much unsent in each TCP socket (`TCP_NOTSENT_LOWAT`): since segmentation offload sends in one piece what
    /// waits, this bounds that piece, together with a single `write`.
    pub const fn new(unsent: Bytes) -> Self {
        Self { unsent, lead: Self::PIECE }
    }

    /// For sockets of this rate at most: they get their bytes no earlier than so much can wait.
    #[must_use]
    pub fn up_to(self, rate: Rate) -> Self {
        let drain = self.unsent.count() as f64 / rate.bytes_per_second().max(1.0);
        Self { lead: Self::PIECE.min(Duration::from_secs_f64(drain.min(1.0))), ..self }
    }
}

impl Executor for SocketRate {
    fn offload(&self) -> Offload {
        Offload::PacingRate
    }

    fn lead(&self) -> Duration {
        self.lead
    }

    fn precision(&self) -> Duration {
        self.lead
    }

    fn prepare(&self, socket: BorrowedFd<'_>, rate: Option<Rate>) -> io::Result<()> {
        let asked =
            rate.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a pacing rate is needed"))?;
        let asked = asked.bits_per_second().div_ceil(8);
        sys_txtime::set_max_pacing_rate(socket, asked)?;
        let got = sys_txtime::max_pacing_rate(socket)?;
        if got != asked {
            return Err(io::Error::other(format!("asked for {asked} B/s, the kernel set {got} B/s")));
        }
        let options = socket2::SockRef::from(&socket);
        if options.r#type()? == socket2::Type::STREAM {
            limit_unsent(&options, self.unsent)?;
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn limit_unsent(options: &socket2::SockRef<'_>, unsent: Bytes) -> io::Result<()> {
    options.set_tcp_notsent_lowat(u32::try_from(unsent.count()).unwrap_or(u32::MAX))
}

#[cfg(not(target_os = "linux"))]
fn limit_unsent(_: &socket2::SockRef<'_>, _: Bytes) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The kernel holds back what goes to one destination, by a token bucket that was set up beforehand; nothing is set on the
/// socket. Trains may go as early as the bucket has room.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenBucketFilter;

impl Executor for TokenBucketFilter {
    fn offload(&self) -> Offload {
        Offload::Tbf
    }

    fn lead(&self) -> Duration {
        Duration::from_millis(1)
    }

    /// Its watchdog is a high-resolution timer; between two expiries it lets its burst go.
    fn precision(&self) -> Duration {
        Duration::from_micros(100)
    }

    fn prepare(&self, _socket: BorrowedFd<'_>, _rate: Option<Rate>) -> io::Result<()> {
        Ok(())
    }
}
