//! [`HostModel`]: the time that hosts take to run their programs, which consists of wake-up delays
//! and processor time.
//!
//! A program sleeps until bytes have arrived or a timer is due. The program runs one wake-up delay
//! later, reads all available bytes, and writes its output. Reading and writing take processor
//! time; each write leaves when the processor time up to it has passed. Bytes that arrive during a
//! run are read by the next run, which follows immediately. If hosts share cores, a program waits
//! for a free one.

use core::time::Duration;

use evb_core::{rng::Rng, units::Bytes};

/// Denominator of the quantiles of [`Delays`], which are in thousandths.
const WHOLE: u16 = 1000;

/// Time from a grant to its last byte in the lab at 10 Gbit/s, as recorded by a builder, with 1, 8
/// and 32 sources. With chunks of 13 kB and a port whose token bucket passes each chunk at once,
/// hosts take nearly all of this time. All hosts shared two cores.
const RECORDED: [&[(u16, u64)]; 3] = [
    &[(0, 19_000), (100, 48_000), (500, 58_000), (900, 72_000), (990, 114_000)],
    &[(0, 8000), (100, 51_000), (500, 93_000), (900, 188_000), (990, 658_000)],
    &[(0, 8000), (500, 90_000), (900, 391_000), (990, 1_221_000)],
];

/// A distribution of delays, given by its quantiles and interpolated linearly between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Quantiles in ascending order, beginning with quantile zero: the thousandths of all delays
    /// that are shorter, and the delay.
    points: Vec<(u16, Duration)>,
    /// True if every arrival during a program's wake-up draws a delay of its own, of which the one
    /// that ends first counts.
    each: bool,
}

impl Delays {
    /// The distribution without any delay.
    pub const NONE: Self = Self { points: Vec::new(), each: false };

    /// Returns a uniform distribution between two delays, both included. Every arrival during a
    /// program's wake-up draws a delay of its own, and the one that ends first counts. With many
    /// packets, wake-ups thus nearly always take the shortest delay.
    pub fn uniform(least: Duration, most: Duration) -> Self {
        Self { points: vec![(0, least), (WHOLE, most)], each: true }
    }

    /// Returns a recorded distribution: ascending quantiles in parts per thousand, each with a
    /// delay in nanoseconds; the first is the minimum. No delay is longer than the last quantile,
    /// because longer delays were not recorded. Each sleep draws one delay, and further arrivals do
    /// not change it.
    pub fn recorded(quantiles: &[(u16, u64)]) -> Self {
        let points = quantiles.iter().map(|(part, nanos)| (*part, Duration::from_nanos(*nanos)));
        Self { points: points.collect(), each: false }
    }

    /// Returns a copy of the distribution with every delay multiplied by `factor`.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        let points = self.points.iter().map(|(part, delay)| (*part, delay.mul_f64(factor)));
        Self { points: points.collect(), each: self.each }
    }

    /// Returns the shortest delay.
    pub fn least(&self) -> Duration {
        self.points.first().map_or(Duration::ZERO, |(_, delay)| *delay)
    }

    /// Returns the longest delay.
    pub fn most(&self) -> Duration {
        self.points.last().map_or(Duration::ZERO, |(_, delay)| *delay)
    }

    /// Returns the mean delay.
    pub fn mean(&self) -> Duration {
        let pairs = self.points.iter().zip(self.points.iter().skip(1));
        let lines: Duration = pairs.map(|(from, to)| (from.1 + to.1) / 2 * u32::from(to.0 - from.0)).sum();
        let rest = self.points.last().map_or(0, |(part, _)| WHOLE - part);
        (lines + self.most() * u32::from(rest)) / u32::from(WHOLE)
    }

    /// Returns true if every arrival during a program's wake-up draws a delay of its own.
    pub(crate) fn is_of_each(&self) -> bool {
        self.each
    }

    /// Draws one random delay, by inverting the distribution function.
    pub(crate) fn draw(&self, rng: &mut Rng) -> Duration {
        let place = u128::from(rng.next_u64()) * u128::from(WHOLE);
        let whole = (place >> 64) as u16;
        let above = self.points.partition_point(|(part, _)| *part <= whole);
        let Some((from, low)) = above.checked_sub(1).map(|index| self.points[index]) else {
            return self.least();
        };
        let Some((to, high)) = self.points.get(above).copied() else { return low };
        let fraction = (place - (u128::from(from) << 64)) / u128::from(to - from);
        let span = high.saturating_sub(low).as_nanos() + 1;
        low + Duration::from_nanos(((fraction * span) >> 64) as u64)
    }
}

/// Processor time that a program takes for its actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTime {
    /// Time for a wake-up from sleep.
    pub wake_up: Duration,
    /// Time for each system call, such as a wait, a read or a write.
    pub call: Duration,
    /// Time for each mebibyte that the program reads or writes.
    pub mebibyte: Duration,
}

impl ProcessorTime {
    /// Returns the processor time for the given numbers of system calls and bytes.
    pub(crate) fn of(&self, calls: u32, bytes: Bytes) -> Duration {
        let nanos = (self.mebibyte.as_nanos() * u128::from(bytes.count())) >> 20;
        self.call * calls + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Wake-up delays and processor time of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Delay from the arrival of bytes, or from the expiry of a timer, until a sleeping program
    /// runs, if a core is free.
    pub wake_up: Delays,
    /// Processor time that the program takes.
    pub processor: ProcessorTime,
}

/// The contribution of the hosts to the delays between sources and builders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostModel {
    /// The program of a source, and of the supervisor.
    pub source: Program,
    /// The program of a builder.
    pub builder: Program,
    /// Number of cores that all hosts share, as in a lab on one machine; with `None`, each program
    /// has a core of its own.
    pub cores: Option<usize>,
}

impl Default for HostModel {
    /// Returns the delays of programs that wait on `epoll` and timerfd, on hosts with idle cores.
    fn default() -> Self {
        let wake_up = Delays::uniform(Duration::from_micros(15), Duration::from_micros(30));
        Self::alike(wake_up, ProcessorTime::default())
    }
}

impl HostModel {
    /// Returns hosts with equal programs, each with a core of its own.
    pub fn alike(wake_up: Delays, processor: ProcessorTime) -> Self {
        let program = Program { wake_up, processor };
        Self { source: program.clone(), builder: program, cores: None }
    }

    /// Returns hosts with their own cores whose wake-ups together take the time that the lab
    /// recorded from a grant to its last byte, with the same number of sources (1, 8, 32) or the
    /// next number below. Source and builder each take half of this time, drawn independently, so
    /// that both halves are rarely long at once.
    pub fn recorded(sources: u16) -> Self {
        let table = RECORDED[usize::from(sources >= 8) + usize::from(sources >= 32)];
        Self::alike(Delays::recorded(table).scaled(0.5), ProcessorTime::default())
    }

    /// Returns a model of the lab, in which all programs share two cores. The processor times are
    /// fitted to the lab's goodput with 1 to 32 sources and chunks of 9 and 38 packets. The wake-up
    /// delays are the remainder of the recorded time from a grant to its last byte with one source.
    pub fn lab() -> Self {
        let processor = ProcessorTime {
            wake_up: Duration::from_micros(2),
            call: Duration::from_micros(3),
            mebibyte: Duration::from_micros(630),
        };
        let wake_up = [(0, 500), (100, 500), (500, 4500), (900, 14_400), (990, 44_100)];
        Self { cores: Some(2), ..Self::alike(Delays::recorded(&wake_up), processor) }
    }

    /// Returns the mean of the fixed part of the time from a grant to its data: the grant's write,
    /// the source's wake-up and its calls, the builder's wake-up and its read.
    pub(crate) fn grant_path(&self) -> Duration {
        let one_way = |program: &Program, calls: u32| {
            program.wake_up.mean() + program.processor.wake_up + program.processor.call * calls
        };
        // The source makes three system calls (wait, read, write), and so does the builder (write,
        // wait, read).
        one_way(&self.source, 3) + one_way(&self.builder, 3)
    }
}

#[cfg(test)]
mod tests;
