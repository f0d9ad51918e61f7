//! The evaluation of one burst: pure arithmetic on the times at which datagrams left their senders
//! and reached the listener.
//!
//! A sender's datagrams ahead of the burst find the port empty. The least time from its clock to
//! the listener's, over those, is what every later datagram would need without a queue; the offset
//! of the clocks and the delay of the path need not be known separately. Added to the time of
//! sending, it gives the time of *entry*.
//!
//! When the first lost datagram enters, the port is full, and holds what has entered and has not
//! left: `buffer = entered − left`. Bytes that a token bucket lets through at once at the start
//! have left, so that they do not count. The port serves at a constant rate while it has a queue,
//! and the time of a receipt can only be late. So the bytes that have left are read from the
//! straight line of that rate below all receipts, not from single ones.

/// One sender's datagrams in a burst.
#[derive(Clone, Debug, Default)]
pub(super) struct Train {
    /// Number of datagrams ahead of the burst.
    pub(super) ahead: usize,
    /// Times of sending by the sender's clock, in nanoseconds.
    pub(super) sent: Vec<i64>,
    /// Times of arrival by the listener's clock, in nanoseconds.
    pub(super) received: Vec<Option<i64>>,
    /// Number of datagrams that the sender's system refused.
    pub(super) errors: u32,
}

/// A burst of all senders.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    /// Bytes of every frame.
    pub(super) frame: u64,
    /// Datagrams by sender; empty if a sender did not take part.
    pub(super) trains: Vec<Train>,
    /// Number of datagrams that found no room in the listener's socket.
    pub(super) host_drops: u64,
}

/// An estimate of the port from the first loss of a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    /// Bytes that had entered and not left.
    pub(super) counted: f64,
    /// Time that datagrams waited in the full port, in seconds.
    pub(super) wait: f64,
    /// Rate of the full port, in bytes per second.
    pub(super) rate: f64,
    /// Bytes that waited in the senders' own links at that time.
    pub(super) own_queue: f64,
    /// Bytes of the burst.
    pub(super) burst: u64,
}

/// A datagram of the burst in the listener's time.
#[derive(Clone, Copy, Debug)]
struct Passage {
    entered: i64,
    left: Option<i64>,
}

impl Trace {
    /// Returns the bytes of the burst, without the datagrams ahead of it.
    pub(super) fn bytes(&self) -> u64 {
        self.trains.iter().map(|train| train.sent.len().saturating_sub(train.ahead) as u64).sum::<u64>()
            * self.frame
    }

    /// Returns the number of datagrams of the burst that did not arrive.
    pub(super) fn lost(&self) -> u64 {
        self.trains.iter().map(|train| missing(train.received.get(train.ahead..))).sum()
    }

    /// Returns the number of datagrams that senders' systems refused.
    pub(super) fn errors(&self) -> u64 {
        self.trains.iter().map(|train| u64::from(train.errors)).sum()
    }

    /// Returns the least time from a sender's clock to the listener's, over the datagrams ahead of
    /// the burst.
    pub(super) fn least_delay(&self, sender: usize) -> Option<i64> {
        let train = self.trains.get(sender)?;
        let delays = train.sent.iter().zip(&train.received).take(train.ahead.max(1));
        delays.filter_map(|(sent, received)| Some((*received)? - sent)).min()
    }

    /// Returns the rate of arrival in the later half of the burst, in bytes per second. A port's
    /// first tokens are spent by then.
    pub(super) fn rate(&self) -> Option<f64> {
        let mut came: Vec<i64> = Vec::new();
        for train in &self.trains {
            came.extend(train.received.iter().skip(train.ahead).flatten());
        }
        came.sort_unstable();
        let later = came.get(came.len() / 2..).filter(|later| later.len() >= 8)?;
        let (first, last) = (*later.first()?, *later.last()?);
        let seconds = (last - first) as f64 / 1e9;
        (seconds > 0.0).then(|| (later.len() - 1) as f64 * self.frame as f64 / seconds)
    }

    /// Returns the rate that all senders together offered during the burst, in bytes per second. It
    /// uses the times of entry, so that senders that did not send at the same time do not add up.
    pub(super) fn offered(&self) -> f64 {
        let passages = self.passages();
        let entries = passages.iter().map(|passage| passage.entered);
        let (first, last) = (entries.clone().min().unwrap_or(0), entries.max().unwrap_or(0));
        let seconds = (last - first) as f64 / 1e9;
        if seconds > 0.0 {
            passages.len().saturating_sub(1) as f64 * self.frame as f64 / seconds
        } else {
            0.0
        }
    }

    /// Returns the longest wait of a datagram of the burst, in seconds.
    pub(super) fn longest_wait(&self) -> f64 {
        let waits = self.passages().into_iter().filter_map(|passage| Some(passage.left? - passage.entered));
        waits.max().unwrap_or(0).max(0) as f64 / 1e9
    }

    /// Evaluates the first loss, if each sender's link carries `links` bytes a second. `None` if
    /// nothing was lost, or too little arrived.
    pub(super) fn estimate(&self, links: &[f64]) -> Option<Estimate> {
        let passages = self.passages();
        let full =
            passages.iter().filter(|passage| passage.left.is_none()).map(|passage| passage.entered).min()?;
        let frame = self.frame as f64;
        let before =
            |passage: &&Passage| passage.entered < full || passage.entered == full && passage.left.is_some();
        let entered = passages.iter().filter(before).count() as f64 * frame;
        let waits = waits_when_full(&passages, full);
        let wait = waits.get(waits.len() * 7 / 8).copied()?;
        let rate = rate_when_full(&passages, full, wait, frame)?;
        let left = left_by(&passages, full, rate, frame)?;
        Some(Estimate {
            counted: (entered - left).max(0.0),
            wait: wait as f64 / 1e9,
            rate,
            own_queue: self.own_queue(full, links),
            burst: self.bytes(),
        })
    }

    fn passages(&self) -> Vec<Passage> {
        let mut passages = Vec::new();
        for (sender, train) in self.trains.iter().enumerate() {
            let Some(delay) = self.least_delay(sender) else { continue };
            let times = train.sent.iter().zip(&train.received).skip(train.ahead);
            passages.extend(times.map(|(sent, left)| Passage { entered: sent + delay, left: *left }));
        }
        passages
    }

    /// Returns the bytes that wait in the senders' links at this time, if each link carries
    /// datagrams away at its rate.
    fn own_queue(&self, at: i64, links: &[f64]) -> f64 {
        let mut sum = 0.0;
        for (sender, train) in self.trains.iter().enumerate() {
            let (Some(delay), Some(link)) = (self.least_delay(sender), links.get(sender)) else { continue };
            let (mut queue, mut before) = (0.0_f64, i64::MIN);
            for sent in train.sent.iter().skip(train.ahead).take_while(|sent| **sent + delay <= at) {
                let drained = sent.saturating_sub(before) as f64 / 1e9 * link;
                queue = (queue - drained).max(0.0) + self.frame as f64;
                before = *sent;
            }
            let drained = at.saturating_sub(before.saturating_add(delay)) as f64 / 1e9 * link;
            // The datagram that is just being sent does not wait.
            sum += (queue - drained.max(0.0) - self.frame as f64).max(0.0);
        }
        sum
    }
}

fn missing(received: Option<&[Option<i64>]>) -> u64 {
    received.unwrap_or_default().iter().filter(|came| came.is_none()).count() as u64
}

/// Returns the rate of the full port. Its content leaves it without a gap, so the arrivals during
/// one waiting time show the rate.
fn rate_when_full(passages: &[Passage], full: i64, wait: i64, frame: f64) -> Option<f64> {
    let mut left: Vec<i64> = passages.iter().filter_map(|passage| passage.left).collect();
    left.retain(|time| (full..full.saturating_add(wait)).contains(time));
    left.sort_unstable();
    let (first, last) = (left.first()?, left.last()?);
    let seconds = (last - first) as f64 / 1e9;
    (left.len() >= 8 && seconds > 0.0).then(|| (left.len() - 1) as f64 * frame / seconds)
}

/// Returns the bytes that have left by this time, from the line of the port's rate that no receipt
/// lies before.
fn left_by(passages: &[Passage], at: i64, rate: f64, frame: f64) -> Option<f64> {
    let mut left: Vec<i64> = passages.iter().filter_map(|passage| passage.left).collect();
    left.sort_unstable();
    // An error of the rate would tilt the line far from this time.
    let reach = waits_when_full(passages, at).last().copied()?.max(1_000_000);
    let near = left.iter().enumerate().filter(|(_, time)| (**time - at).abs() <= reach);
    let behind = near.map(|(before, time)| (before + 1) as f64 * frame - (*time - at) as f64 / 1e9 * rate);
    let most = behind.fold(f64::NEG_INFINITY, f64::max);
    // The line passes through the instants at which a packet has just left. In between, on average
    // half a packet has not.
    most.is_finite().then(|| (most - frame / 2.0).max(0.0))
}

/// Returns in order the waits of datagrams that entered at about the time of the first loss. Those
/// within an eighth of the longest wait count: later, senders may have paused and the port may be
/// less than full.
fn waits_when_full(passages: &[Passage], full: i64) -> Vec<i64> {
    let waited = |passage: &Passage| Some((passage.entered, passage.left? - passage.entered));
    let mut through: Vec<(i64, i64)> = passages.iter().filter_map(waited).collect();
    through.sort_unstable_by_key(|(entered, _)| (entered - full).abs());
    let longest = through.iter().map(|(_, wait)| *wait).max().unwrap_or(0);
    let near = through.iter().take_while(|(entered, _)| (entered - full).abs() <= longest / 8).count();
    through.truncate(near.max(NEAREST));
    let mut waits: Vec<i64> = through.into_iter().map(|(_, wait)| wait).collect();
    waits.sort_unstable();
    waits
}

/// Number of datagrams around the first loss that count in any case.
const NEAREST: usize = 4;
