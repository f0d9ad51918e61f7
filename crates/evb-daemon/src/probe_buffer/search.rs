//! The order of the measurement: what each sender's link gives, what the port carries, the smallest burst that loses,
//! and then the same overload again and again.

use evb_core::units::{Bytes, Rate};

use super::trace::{Estimate, Trace};

/// What one sender is to send in a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Share {
    /// Datagrams; none: it does not take part.
    pub(super) count: u32,
    /// Nanoseconds between them; 0: as fast as it can.
    pub(super) spacing: u64,
}

/// Who sends and receives: the network, or a model of it in tests.
pub(super) trait Rig {
    type Error;

    /// Bytes of every frame.
    fn frame(&self) -> Bytes;

    /// How many senders there are.
    fn senders(&self) -> usize;

    /// Lets every sender send its share, all at the same time, behind `ahead_spacing` nanoseconds apart ones that find
    /// the network empty.
    fn burst(&mut self, shares: &[Share], ahead_spacing: u64) -> Result<Trace, Self::Error>;

    /// Whether there is time for another burst.
    fn may_go_on(&self) -> bool;

    /// Tells people how far it is.
    fn say(&mut self, progress: &str);
}

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// The largest burst of all senders.
    pub(super) burst: Bytes,
    /// Bursts beyond the smallest that loses.
    pub(super) repeats: u32,
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    /// What each sender alone brought through.
    pub(super) links: Vec<Rate>,
    /// What the port carries, in L2 frames.
    pub(super) port: Rate,
    /// What the senders together put out in the overload.
    pub(super) offered: Rate,
    /// The largest burst without loss and the smallest with one.
    pub(super) largest_clean: Bytes,
    /// The smallest burst that lost.
    pub(super) smallest_lossy: Option<Bytes>,
    /// The most that was seen waiting, by delay and rate.
    pub(super) most_waiting: Bytes,
    /// One estimate of every burst that lost.
    pub(super) estimates: Vec<Estimate>,
    /// Bursts that do not count, because a host lost datagrams.
    pub(super) spoilt: u32,
    /// Why no buffer was found.
    pub(super) not_reached: Option<&'static str>,
}

/// Datagrams of the first bursts, which find the rates.
const TRAIN: u32 = 200;
/// A busy host may spoil a burst: so many, of which the best counts.
const TRIES: u32 = 3;
/// Of a sender's own rate: below, its own queue stays empty.
const BELOW: f64 = 0.95;
/// The first spacing of those ahead, before any rate is known: 5 ms.
const FIRST_SPACING: u64 = 5_000_000;
/// Beyond the port's rate, so that its queue grows at all.
const OVERLOAD: f64 = 1.05;
/// Each burst is that much larger than the one before, until one loses.
const GROWTH: f64 = 1.6;
/// The search ends when the two bounds are that close.
const CLOSE: f64 = 1.06;
/// The repeats are that much larger than the smallest burst that lost.
const BEYOND: f64 = 1.3;

struct Search<'r, R: Rig> {
    rig: &'r mut R,
    links: Vec<f64>,
    port: f64,
    ahead_spacing: u64,
    finding: Finding,
}

/// Measures.
///
/// # Errors
/// The rig's.
pub(super) fn search<R: Rig>(rig: &mut R, limits: Limits) -> Result<Finding, R::Error> {
    let nothing = Rate::from_bits_per_second(0);
    let finding = Finding {
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
    let mut search = Search { rig, links: Vec::new(), port: 0.0, ahead_spacing: FIRST_SPACING, finding };
    search.links()?;
    search.overload()?;
    if search.finding.not_reached.is_none() {
        search.grow(limits)?;
    }
    if search.finding.smallest_lossy.is_some() {
        search.narrow()?;
        search.repeat(limits)?;
    }
    if let Some(rate) = search.finding.rate_when_full() {
        search.finding.port = bits(rate);
    }
    Ok(search.finding)
}

impl<R: Rig> Search<'_, R> {
    fn frame(&self) -> f64 {
        self.rig.frame().count() as f64
    }

    /// Each sender alone, as fast as it can: the slower of its own link and the port.
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
            self.finding.links.push(bits(rate));
            self.rig.say(&format!("sender {} alone: {}", sender + 1, bits(rate)));
        }
        // The ones ahead of a burst must not meet each other: all senders' together take a quarter of the slowest rate.
        let slowest = self.links.iter().copied().fold(f64::INFINITY, f64::min).max(1.0);
        let spaced = 4.0 * senders as f64 * self.frame() / slowest * 1e9;
        self.ahead_spacing = (spaced as u64).clamp(500_000, 20_000_000);
        if self.links.iter().any(|rate| *rate <= 0.0) {
            self.finding.not_reached = Some("not every sender's datagrams come through");
        }
        Ok(())
    }

    /// All together, each below its own rate: what comes is what the port carries.
    fn overload(&mut self) -> Result<(), R::Error> {
        if self.finding.not_reached.is_some() {
            return Ok(());
        }
        for _ in 0..TRIES {
            let trace = self.send(u64::from(TRAIN) * 2 * self.rig.frame().count())?;
            let (offered, came) = (trace.offered(), trace.rate().unwrap_or(0.0));
            self.port = self.port.max(came);
            self.finding.port = bits(self.port);
            self.finding.offered = self.finding.offered.max(bits(offered));
            self.wait(&trace);
            self.rig.say(&format!("all together: {} offered, {} come", bits(offered), bits(came)));
            if offered >= came * OVERLOAD || trace.lost() > 0 {
                return Ok(());
            }
        }
        self.finding.not_reached = Some("the port carries all that these senders can send");
        Ok(())
    }

    /// Larger and larger bursts until one loses.
    fn grow(&mut self, limits: Limits) -> Result<(), R::Error> {
        let most = limits.burst.count();
        let mut size = (8.0 * self.links.len() as f64 * self.frame()) as u64;
        while self.finding.smallest_lossy.is_none() {
            if size > most {
                self.finding.not_reached = Some("the largest burst fits into the buffer");
                break;
            }
            if !self.rig.may_go_on() {
                self.finding.not_reached = Some("there was no time for larger bursts");
                break;
            }
            self.try_burst(size)?;
            size = (size as f64 * GROWTH) as u64;
        }
        Ok(())
    }

    /// Between the largest burst without loss and the smallest with one.
    fn narrow(&mut self) -> Result<(), R::Error> {
        while let Some(lossy) = self.finding.smallest_lossy {
            let clean = self.finding.largest_clean;
            let close = lossy.count() as f64 <= clean.count() as f64 * CLOSE;
            let (low, high) = (clean.count() as f64, lossy.count() as f64);
            let least = 2.0 * self.links.len() as f64 * self.frame();
            if close || high - low <= least || !self.rig.may_go_on() {
                break;
            }
            self.try_burst(((low + high) / 2.0) as u64)?;
        }
        Ok(())
    }

    fn repeat(&mut self, limits: Limits) -> Result<(), R::Error> {
        let size = self.finding.smallest_lossy.unwrap_or(limits.burst).count() as f64 * BEYOND;
        for _ in 0..limits.repeats {
            if self.rig.may_go_on() {
                self.try_burst(size as u64)?;
            }
        }
        Ok(())
    }

    /// One burst of that many bytes, and what it says.
    fn try_burst(&mut self, size: u64) -> Result<(), R::Error> {
        let trace = self.send(size)?;
        let sent = Bytes::new(trace.bytes());
        if trace.host_drops > 0 || trace.errors() > 0 {
            self.finding.spoilt += 1;
            self.rig.say(&format!("burst of {sent}: a host lost datagrams, not the port"));
            // A clean host is not to be had at this size: then larger ones say nothing either.
            if self.finding.spoilt > 5 && self.finding.smallest_lossy.is_none() {
                self.finding.not_reached = Some("a host loses datagrams before the port does");
                self.finding.smallest_lossy = None;
            }
            return Ok(());
        }
        self.wait(&trace);
        let lost = trace.lost();
        if lost == 0 {
            self.finding.largest_clean = self.finding.largest_clean.max(sent);
            self.rig.say(&format!("burst of {sent}: nothing lost"));
            return Ok(());
        }
        let smallest = self.finding.smallest_lossy.map_or(sent, |lossy| lossy.min(sent));
        self.finding.smallest_lossy = Some(smallest);
        // A clean burst above it was luck, or this one's loss was not the port's.
        self.finding.largest_clean = self.finding.largest_clean.min(smallest);
        let estimate = trace.estimate(&self.links);
        if let Some(estimate) = estimate {
            let counted = Bytes::new(estimate.counted as u64);
            self.rig.say(&format!("burst of {sent}: {lost} lost, {counted} in the port at the first"));
            self.finding.estimates.push(estimate);
        }
        Ok(())
    }

    fn wait(&mut self, trace: &Trace) {
        let waiting = Bytes::new((trace.longest_wait() * self.port) as u64);
        self.finding.most_waiting = self.finding.most_waiting.max(waiting);
    }

    /// A burst of that many bytes: every sender below its own rate, and all end at the same time.
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

impl Finding {
    /// The estimates that count: those in whose bursts the senders' own links did not queue, if they are three or more.
    pub(super) fn counting(&self) -> Vec<Estimate> {
        let sharp = |estimate: &&Estimate| estimate.own_queue <= estimate.counted * 0.05 + 3_028.0;
        let sharp: Vec<Estimate> = self.estimates.iter().filter(sharp).copied().collect();
        if sharp.len() >= 3 { sharp } else { self.estimates.clone() }
    }

    /// Median and range of one number of the estimates that count.
    pub(super) fn spread(&self, of: impl Fn(&Estimate) -> f64) -> Option<[f64; 3]> {
        let mut numbers: Vec<f64> = self.counting().iter().map(of).collect();
        numbers.sort_by(f64::total_cmp);
        Some([*numbers.first()?, *numbers.get(numbers.len() / 2)?, *numbers.last()?])
    }

    /// What the port put out while it was full: the median, in bytes per second.
    fn rate_when_full(&self) -> Option<f64> {
        self.spread(|estimate| estimate.rate).map(|[_, median, _]| median)
    }

    /// Range and median of the buffer by the delay.
    pub(super) fn by_delay(&self) -> Option<[f64; 3]> {
        let rate = self.rate_when_full()?;
        self.spread(|estimate| estimate.wait * rate)
    }

    /// The usable buffer: the smaller of what was counted and what the delay says, by their medians.
    pub(super) fn buffer(&self) -> Option<Bytes> {
        let [_, counted, _] = self.spread(|estimate| estimate.counted)?;
        let [_, delayed, _] = self.by_delay()?;
        let buffer = counted.min(delayed) as u64;
        (buffer >= 1024).then(|| Bytes::new(buffer))
    }
}
