//! The steps of the measurement: the rate of each sender's link, the rate of the port, the size of
//! the smallest burst that loses datagrams, and repetitions of a slightly larger burst.

use evb_core::units::{Bytes, Rate};

use super::trace::{Estimate, Trace};

/// The part of a burst that one sender sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share {
    /// Number of datagrams; 0 if the sender does not take part.
    pub(super) count: u32,
    /// Time between datagrams in nanoseconds; 0: as fast as possible.
    pub(super) spacing: u64,
}

/// The senders, the network and the receiver; tests replace them by a model.
pub(super) trait Rig {
    type Error;

    /// Returns the size of each L2 frame.
    fn frame(&self) -> Bytes;

    /// Returns the number of senders.
    fn senders(&self) -> usize;

    /// Lets all senders send their shares at the same time. Before its share, each sender sends
    /// some datagrams `ahead_spacing` nanoseconds apart, far enough to find the network empty.
    fn burst(&mut self, shares: &[Share], ahead_spacing: u64) -> Result<Trace, Self::Error>;

    /// Returns true if the time limit permits another burst.
    fn may_go_on(&self) -> bool;

    /// Shows a progress message to people.
    fn say(&mut self, progress: &str);
}

/// The limits of the measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Largest size of a burst of all senders together.
    pub(super) burst: Bytes,
    /// Number of repetitions with a burst larger than the smallest burst with a loss.
    pub(super) repeats: u32,
}

/// The result of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SearchResult {
    /// Rate that each sender reached when it sent alone.
    pub(super) links: Vec<Rate>,
    /// Rate of the port in bytes of L2 frames.
    pub(super) port: Rate,
    /// Rate at which all senders together sent during the overload.
    pub(super) offered: Rate,
    /// Size of the largest burst without a loss; never above the smallest burst with a loss.
    pub(super) largest_clean: Bytes,
    /// Size of the smallest burst with a loss; `None` if no burst had a loss.
    pub(super) smallest_lossy: Option<Bytes>,
    /// Largest number of bytes that waited in the port, computed from a datagram's delay and the
    /// port's rate.
    pub(super) most_waiting: Bytes,
    /// Estimates of the buffer, one for each burst with a loss.
    pub(super) estimates: Vec<Estimate>,
    /// Number of bursts that do not count, because a host lost datagrams.
    pub(super) spoilt: u32,
    /// Reason why the buffer could not be measured; `None` if it was.
    pub(super) not_reached: Option<&'static str>,
}

/// Number of datagrams in each burst that measures a rate.
const TRAIN: u32 = 200;
/// Number of attempts to measure a rate; the best attempt counts, because a busy host may spoil the
/// others.
const TRIES: u32 = 3;
/// Part of a sender's own rate at which it sends, so that no queue forms in its own link.
const BELOW: f64 = 0.95;
/// Spacing of datagrams ahead of a burst before any rate is known: 5 ms, in nanoseconds.
const FIRST_SPACING: u64 = 5_000_000;
/// Smallest ratio of the offered rate to the port's rate that counts as an overload.
const OVERLOAD: f64 = 1.05;
/// Ratio between the sizes of successive bursts while the first burst with a loss is searched.
const GROWTH: f64 = 1.6;
/// Ratio between the smallest burst with a loss and the largest without, below which the search
/// ends.
const CLOSE: f64 = 1.06;
/// Ratio between the size of the repeated bursts and the smallest burst with a loss.
const BEYOND: f64 = 1.3;

struct Search<'r, R: Rig> {
    rig: &'r mut R,
    links: Vec<f64>,
    port: f64,
    ahead_spacing: u64,
    result: SearchResult,
}

/// Measures the usable buffer of the port.
///
/// # Errors
/// The rig reports an error.
pub(super) fn search<R: Rig>(rig: &mut R, limits: Limits) -> Result<SearchResult, R::Error> {
    let nothing = Rate::from_bits_per_second(0);
    let result = SearchResult {
        links: Vec::new(),
        port: nothing,
        offered: nothing,
        largest_clean: Bytes::ZERO,
        smallest_lossy: None,
        most_waiting: Bytes::ZERO,
        estimates: Vec::new(),
        spoilt: 0,
        not_reached: None,
    };
    let mut search = Search { rig, links: Vec::new(), port: 0.0, ahead_spacing: FIRST_SPACING, result };
    search.links()?;
    search.overload()?;
    if search.result.not_reached.is_none() {
        search.grow(limits)?;
    }
    if search.result.smallest_lossy.is_some() {
        search.narrow()?;
        search.repeat(limits)?;
    }
    if let Some(rate) = search.result.rate_when_full() {
        search.result.port = bits(rate);
    }
    Ok(search.result)
}

impl<R: Rig> Search<'_, R> {
    fn frame(&self) -> f64 {
        self.rig.frame().count() as f64
    }

    /// Measures the rate of each sender when it sends alone and as fast as possible: the rate of
    /// its own link or of the port, whichever is lower.
    fn links(&mut self) -> Result<(), R::Error> {
        let senders = self.rig.senders();
        for sender in 0..senders {
            let mut shares = vec![Share { count: 0, spacing: 0 }; senders];
            shares[sender].count = TRAIN;
            let mut rate = 0.0_f64;
            for _ in 0..TRIES {
                let trace = self.rig.burst(&shares, self.ahead_spacing)?;
                rate = rate.max(trace.rate().unwrap_or(0.0));
            }
            self.links.push(rate);
            self.result.links.push(bits(rate));
            self.rig.say(&format!("sender {} alone reaches {}", sender + 1, bits(rate)));
        }
        // Datagrams ahead of a burst must not meet in the port. The spacing of these datagrams is
        // chosen so that all senders together use a quarter of the lowest measured rate.
        let slowest = self.links.iter().copied().fold(f64::INFINITY, f64::min).max(1.0);
        let spaced = 4.0 * senders as f64 * self.frame() / slowest * 1e9;
        self.ahead_spacing = (spaced as u64).clamp(500_000, 20_000_000);
        if self.links.iter().any(|rate| *rate <= 0.0) {
            self.result.not_reached = Some(
                "the datagrams of a sender do not come through: look at its network and at firewalls, then repeat",
            );
        }
        Ok(())
    }

    /// Measures the rate of the port while all senders send together, each slightly below its own
    /// rate.
    fn overload(&mut self) -> Result<(), R::Error> {
        if self.result.not_reached.is_some() {
            return Ok(());
        }
        for _ in 0..TRIES {
            let trace = self.send(u64::from(TRAIN) * 2 * self.rig.frame().count())?;
            let (offered, came) = (trace.offered(), trace.rate().unwrap_or(0.0));
            self.port = self.port.max(came);
            self.result.port = bits(self.port);
            self.result.offered = self.result.offered.max(bits(offered));
            self.wait(&trace);
            self.rig.say(&format!("all senders together send {}, and {} arrives", bits(offered), bits(came)));
            if offered >= came * OVERLOAD || trace.lost() > 0 {
                return Ok(());
            }
        }
        self.result.not_reached = Some(
            "the port carries all that these senders can send: repeat with more senders, or with faster links",
        );
        Ok(())
    }

    /// Sends bursts of growing size until a burst loses datagrams.
    fn grow(&mut self, limits: Limits) -> Result<(), R::Error> {
        let most = limits.burst.count();
        let mut size = (8.0 * self.links.len() as f64 * self.frame()) as u64;
        while self.result.smallest_lossy.is_none() && self.result.not_reached.is_none() {
            if size > most {
                self.result.not_reached =
                    Some("the largest burst fits into the buffer: repeat with a larger --burst");
                break;
            }
            if !self.rig.may_go_on() {
                self.result.not_reached =
                    Some("there was no time for larger bursts: repeat with a larger --time");
                break;
            }
            self.try_burst(size)?;
            size = (size as f64 * GROWTH) as u64;
        }
        Ok(())
    }

    /// Searches for the smallest burst with a loss, between the largest burst without a loss and
    /// the smallest known burst with a loss.
    fn narrow(&mut self) -> Result<(), R::Error> {
        while let Some(lossy) = self.result.smallest_lossy {
            let clean = self.result.largest_clean;
            let close = lossy.count() as f64 <= clean.count() as f64 * CLOSE;
            let (low, high) = (clean.count() as f64, lossy.count() as f64);
            // Two frames of every sender are the finest step that a burst can show.
            let least = 2.0 * self.links.len() as f64 * self.frame();
            if close || high - low <= least || !self.rig.may_go_on() {
                break;
            }
            self.try_burst(((low + high) / 2.0) as u64)?;
        }
        Ok(())
    }

    /// Repeats bursts that are larger than the buffer, to see how much of them arrives.
    fn repeat(&mut self, limits: Limits) -> Result<(), R::Error> {
        let size = self.result.smallest_lossy.unwrap_or(limits.burst).count() as f64 * BEYOND;
        for _ in 0..limits.repeats {
            if self.rig.may_go_on() {
                self.try_burst(size as u64)?;
            }
        }
        Ok(())
    }

    /// Sends a burst of this size and evaluates the arrivals.
    fn try_burst(&mut self, size: u64) -> Result<(), R::Error> {
        let trace = self.send(size)?;
        let sent = Bytes::new(trace.bytes());
        if trace.host_drops > 0 || trace.errors() > 0 {
            self.result.spoilt += 1;
            let culprit = if trace.host_drops > 0 { "this host" } else { "a sender" };
            self.rig.say(&format!(
                "burst of {sent}: left out, because {culprit} lost datagrams before the port could; the probe goes on"
            ));
            // If hosts lose datagrams in many bursts before the port does, larger bursts do not
            // help.
            if self.result.spoilt > 5 && self.result.smallest_lossy.is_none() {
                self.result.not_reached = Some(
                    "a host loses datagrams before the port does: lower its load, or raise net.core.rmem_max, then repeat",
                );
            }
            return Ok(());
        }
        self.wait(&trace);
        let lost = trace.lost();
        if lost == 0 {
            self.result.largest_clean = self.result.largest_clean.max(sent);
            self.rig.say(&format!("burst of {sent}: nothing lost"));
            return Ok(());
        }
        let smallest = self.result.smallest_lossy.map_or(sent, |lossy| lossy.min(sent));
        self.result.smallest_lossy = Some(smallest);
        // If a larger burst had no loss, the port was lucky then or this loss was not the port's,
        // so that the bound without loss is lowered.
        self.result.largest_clean = self.result.largest_clean.min(smallest);
        let estimate = trace.estimate(&self.links);
        if let Some(estimate) = estimate {
            let counted = Bytes::new(estimate.counted as u64);
            self.rig.say(&format!(
                "burst of {sent}: {lost} datagrams lost, the first with {counted} in the port"
            ));
            self.result.estimates.push(estimate);
        }
        Ok(())
    }

    fn wait(&mut self, trace: &Trace) {
        let waiting = Bytes::new((trace.longest_wait() * self.port) as u64);
        self.result.most_waiting = self.result.most_waiting.max(waiting);
    }

    /// Sends a burst of this size: every sender sends slightly below its own rate, and all senders
    /// finish at the same time.
    fn send(&mut self, size: u64) -> Result<Trace, R::Error> {
        let all: f64 = self.links.iter().sum();
        let frame = self.frame();
        let share = |link: &f64| Share {
            count: ((size as f64 * link / all / frame).round() as u32).max(2),
            spacing: (frame / (link * BELOW) * 1e9).ceil() as u64,
        };
        let shares: Vec<Share> = self.links.iter().map(share).collect();
        self.rig.burst(&shares, self.ahead_spacing)
    }
}

fn bits(bytes_per_second: f64) -> Rate {
    Rate::from_bits_per_second((bytes_per_second * 8.0).max(0.0) as u64)
}

impl SearchResult {
    /// Returns the estimates that count: those of bursts during which no queue formed in the
    /// senders' own links. If fewer than three estimates count, returns all estimates.
    pub(super) fn counting(&self) -> Vec<Estimate> {
        let sharp = |estimate: &&Estimate| estimate.own_queue <= estimate.counted * 0.05 + 3_028.0;
        let sharp: Vec<Estimate> = self.estimates.iter().filter(sharp).copied().collect();
        if sharp.len() >= 3 { sharp } else { self.estimates.clone() }
    }

    /// Returns minimum, median and maximum of the quantity `of` over the estimates that count.
    pub(super) fn spread(&self, of: impl Fn(&Estimate) -> f64) -> Option<[f64; 3]> {
        let mut numbers: Vec<f64> = self.counting().iter().map(of).collect();
        numbers.sort_by(f64::total_cmp);
        Some([*numbers.first()?, *numbers.get(numbers.len() / 2)?, *numbers.last()?])
    }

    /// Returns the median rate of the full port, in bytes per second.
    fn rate_when_full(&self) -> Option<f64> {
        self.spread(|estimate| estimate.rate).map(|[_, median, _]| median)
    }

    /// Returns minimum, median and maximum of the buffer size, computed from the delay of datagrams
    /// in the full port.
    pub(super) fn by_delay(&self) -> Option<[f64; 3]> {
        let rate = self.rate_when_full()?;
        self.spread(|estimate| estimate.wait * rate)
    }

    /// Returns the usable buffer: the smaller of the two medians that result from counted bytes and
    /// from delays.
    pub(super) fn buffer(&self) -> Option<Bytes> {
        let [_, counted, _] = self.spread(|estimate| estimate.counted)?;
        let [_, delayed, _] = self.by_delay()?;
        let buffer = counted.min(delayed) as u64;
        (buffer >= 1024).then(|| Bytes::new(buffer))
    }
}
