//! [`Executor`]: the trait for executors of departure times, and its implementations.

#[cfg(test)]
mod tests;

use std::{fmt, io, os::fd::BorrowedFd, time::Duration};

use evb_core::{
    offload::Offload,
    units::{Bytes, Rate},
};

use super::spin::SPIN_MARGIN;
use crate::{
    sys_txtime::{self, DepartureClock},
    timer::Timer,
};

/// Executor of departure times: makes trains depart on time on the sockets that it has prepared.
///
/// ```
/// use std::time::Duration;
///
/// use evb_net::pacing::{Etf, Executor, Software, Txtime};
///
/// let executors: [&dyn Executor; 3] = [&Software::timer(), &Txtime, &Etf];
/// // The time before its departure at which a train is handed over.
/// let leads = executors.map(|executor| executor.lead());
/// assert_eq!(leads, [0, 2, 5].map(Duration::from_millis));
/// ```
pub trait Executor: fmt::Debug + Send + Sync {
    /// Returns the offload that this executor uses.
    fn offload(&self) -> Offload;

    /// Returns the time before a train's departure at which the caller hands the train over; zero
    /// if the caller itself waits for the departure time.
    fn lead(&self) -> Duration;

    /// Returns the deviation of trains from their departure times at the 99th percentile, which is
    /// the parameter T of clustered packet spacing.
    fn precision(&self) -> Duration;

    /// Returns the time between a lane's trains if the lane's burst size permits it: the precision,
    /// or longer if the caller must wake up for each train.
    fn spacing(&self) -> Duration {
        self.precision()
    }

    /// Sets the options that this executor needs on a connected socket. `rate` is the lane's
    /// maximum rate, in bytes as the kernel counts them: payload for TCP, layer 2 for UDP.
    ///
    /// # Errors
    /// Fails if an option is unknown or not permitted, or if the executor needs a rate and none is
    /// given.
    fn prepare(&self, socket: BorrowedFd<'_>, rate: Option<Rate>) -> io::Result<()>;

    /// Creates the timer with which the caller waits until [`lead`](Self::lead) before a departure.
    ///
    /// # Errors
    /// Fails if the process has no file descriptors left.
    fn timer(&self) -> io::Result<Timer> {
        Timer::new()
    }

    /// Returns the clock of the departure times that datagrams carry; `None` if datagrams carry no
    /// departure times and leave when they are sent.
    fn clock(&self) -> Option<DepartureClock> {
        None
    }
}

/// Executor in software: the caller waits with a timer, or spins for the last microseconds, and
/// sends at the departure time.
///
/// ```
/// use std::time::Duration;
///
/// use evb_net::pacing::{Executor as _, Software};
///
/// let measured = Duration::from_micros(60);
/// let timer = Software::timer().with_precision(measured);
/// assert!(!timer.spins() && timer.precision() == measured);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Software {
    margin: Duration,
    precision: Duration,
}

impl Software {
    /// The 99th percentile of a `timerfd`'s lateness on a loaded host; [`prove`](super::prove)
    /// measures the lateness on this host.
    const TIMER_PRECISION: Duration = Duration::from_micros(100);
    /// Spacing of departures with a timer. Each departure wakes the sender and the receiver, which
    /// costs more than the packets of a millisecond.
    const TIMER_SPACING: Duration = Duration::from_millis(1);
    /// The 99th percentile of a spinning thread's lateness.
    const SPIN_PRECISION: Duration = Duration::from_micros(5);

    /// Creates an executor that waits with a `timerfd`.
    pub const fn timer() -> Self {
        Self { margin: Duration::ZERO, precision: Self::TIMER_PRECISION }
    }

    /// Creates an executor that spins for the last [`SPIN_MARGIN`] before a departure. Check
    /// [`spin_allowed`](super::spin_allowed) first.
    pub const fn spinning() -> Self {
        Self { margin: SPIN_MARGIN, precision: Self::SPIN_PRECISION }
    }

    /// Replaces the assumed precision with a measured precision.
    #[must_use]
    pub const fn with_precision(self, precision: Duration) -> Self {
        Self { precision, ..self }
    }

    /// Returns true if this executor spins before a departure.
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

/// Executor in the kernel: datagrams carry their departure times (`SO_TXTIME`), and the queueing
/// discipline `fq` holds them until then. A late datagram leaves at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Txtime;

impl Executor for Txtime {
    fn offload(&self) -> Offload {
        Offload::Txtime
    }

    /// Returns a lead of ten turns of a busy driver task, far below the 10 s beyond which `fq`
    /// drops packets.
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

/// Executor in the kernel: datagrams carry their departure times on `CLOCK_TAI`, and the queueing
/// discipline `etf` holds them until then. `etf` drops late datagrams, which suits users who prefer
/// a loss to a disturbance of other trains, so this executor is used only on request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Etf;

impl Executor for Etf {
    fn offload(&self) -> Offload {
        Offload::Etf
    }

    /// Returns a longer lead than [`Txtime`] does, because `etf` drops a train that is handed over
    /// late.
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

/// Executor in the kernel that paces each socket at a rate (`SO_MAX_PACING_RATE`). The shaper still
/// decides departure times, and hands trains over a little earlier so that the kernel always has
/// data; the kernel smooths the gaps between trains.
#[derive(Clone, Copy, Debug)]
pub struct SocketRate {
    unsent: Bytes,
    lead: Duration,
}

impl SocketRate {
    /// Duration, at the pacing rate, of the pieces in which the kernel sends waiting data
    /// (`sk_pacing_shift`).
    const PIECE: Duration = Duration::from_millis(1);

    /// Creates an executor that limits the unsent bytes in each TCP socket (`TCP_NOTSENT_LOWAT`).
    /// Segmentation offload sends waiting bytes in one piece, so the limit and a single `write`
    /// together bound that piece.
    pub const fn new(unsent: Bytes) -> Self {
        Self { unsent, lead: Self::PIECE }
    }

    /// Limits the lead to the time in which the unsent bytes drain at `rate`, the highest rate of
    /// the sockets.
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

    /// Asks the kernel to pace the socket, and reads the rate back, because the kernel may set a
    /// lower one.
    fn prepare(&self, socket: BorrowedFd<'_>, rate: Option<Rate>) -> io::Result<()> {
        let asked = rate.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "a lane has no rate at which to send, which is a fault of evb: report it",
            )
        })?;
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

/// Executor in the kernel: a token bucket that was set up beforehand delays the packets to each
/// destination; no option is set on the socket. Trains may be handed over as early as the bucket
/// has room.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenBucketFilter;

impl Executor for TokenBucketFilter {
    fn offload(&self) -> Offload {
        Offload::Tbf
    }

    fn lead(&self) -> Duration {
        Duration::from_millis(1)
    }

    /// Returns an estimate: the token bucket's watchdog is a high-resolution timer, and the bucket
    /// lets a burst pass at each expiry.
    fn precision(&self) -> Duration {
        Duration::from_micros(100)
    }

    fn prepare(&self, _socket: BorrowedFd<'_>, _rate: Option<Rate>) -> io::Result<()> {
        Ok(())
    }
}
