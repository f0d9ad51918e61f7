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
    /// Returns the offload that this executor uses.
    fn offload(&self) -> Offload;

    /// Returns the time before its departure at which it wants a train: zero where the caller waits
    /// for the departure itself.
    fn lead(&self) -> Duration;

    /// Returns the deviation of trains from their departure times at the 99th percentile: the T of
    /// clustered packet spacing.
    fn precision(&self) -> Duration;

    /// Returns the time between a lane's trains where its burst permits: the precision, or longer
    /// where the caller has to wake up for each.
    fn spacing(&self) -> Duration {
        self.precision()
    }

    /// Sets the options that it needs on a connected socket. `rate` is the lane's ceiling, in the
    /// bytes that the kernel counts: payload for TCP, layer 2 for UDP.
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

    /// Returns the clock of the departure times that datagrams carry; `None` if they carry none and
    /// leave when they are sent.
    fn clock(&self) -> Option<DepartureClock> {
        None
    }
}

/// Software: the caller waits by a timer, or spins through the last microseconds, and sends at the
/// departure time.
#[derive(Clone, Copy, Debug)]
pub struct Software {
    margin: Duration,
    precision: Duration,
}

impl Software {
    /// The 99th percentile of a `timerfd`'s lateness on a loaded host; [`prove`](super::prove)
    /// measures that of this host.
    const TIMER_PRECISION: Duration = Duration::from_micros(100);
    /// Spacing of departures by a timer. Each one wakes the sender and the receiver, which costs
    /// more than the packets of a millisecond.
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

    /// Replaces the assumed precision by a measured one.
    #[must_use]
    pub const fn with_precision(self, precision: Duration) -> Self {
        Self { precision, ..self }
    }

    /// Returns true if it spins.
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

    /// Returns the lateness of `fq`: its timer may fire up to 10 µs late to join wake-ups
    /// (`timer_slack`), and the interrupt adds to that.
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

/// Datagrams carry their departure time on `CLOCK_TAI`, and `etf` keeps them until then. It drops
/// late ones, which suits those who prefer a loss to a disturbance, so it is never chosen by
/// itself.
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

/// The kernel paces the socket. The shaper still decides departure times, and lets trains go a
/// little ahead of them so that the kernel never runs dry; the kernel smooths the gaps between
/// them.
#[derive(Clone, Copy, Debug)]
pub struct SocketRate {
    unsent: Bytes,
    lead: Duration,
}

impl SocketRate {
    /// Time for which the kernel's pieces last at the rate when it has the data
    /// (`sk_pacing_shift`).
    const PIECE: Duration = Duration::from_millis(1);

    /// Limits the unsent bytes in each TCP socket (`TCP_NOTSENT_LOWAT`). Segmentation offload sends
    /// waiting bytes in one piece, so the limit and a single `write` together bound that piece.
    pub const fn new(unsent: Bytes) -> Self {
        Self { unsent, lead: Self::PIECE }
    }

    /// Limits the rate of the sockets, which get their bytes no earlier than the time in which the
    /// unsent bytes drain.
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
        let asked = rate
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the socket needs a pacing rate"))?;
        let asked = asked.bits_per_second().div_ceil(8);
        sys_txtime::set_max_pacing_rate(socket, asked)?;
        let got = sys_txtime::max_pacing_rate(socket)?;
        if got != asked {
            return Err(io::Error::other(format!(
                "evb asked for a pacing rate of {asked} B/s, but the kernel set {got} B/s"
            )));
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

/// The kernel delays the packets to each destination, by a token bucket that was set up beforehand;
/// no option is set on the socket. Trains may go as early as the bucket has room.
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
