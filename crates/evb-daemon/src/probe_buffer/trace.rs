//! What one burst tells: pure arithmetic over the times at which datagrams left their senders and came to the listener.
//!
//! A sender's datagrams ahead of the burst find the port empty. The least time from its clock to the listener's, over
//! those, is what every later datagram would have needed without a queue: no offset of clocks and no delay of the path
//! need be known apart. It turns a send time into the time of *entry*.
//!
//! At the entry of the first datagram that is lost the port is full, and it holds what has entered and has not left:
//! `buffer = entered − left`. What a port with a token bucket lets through at once at first has left, so it does not
//! count. The port serves at a constant rate while it has a queue, and a receipt is only ever noted late, so what has
//! left is read from the straight line of that rate under all receipts, not from single ones.

/// One sender's part.
#[derive(Clone, Debug, Default)]
pub(super) struct Train {
    /// How many of them were ahead of the burst.
    pub(super) ahead: usize,
    /// When each left, on the sender's clock, in nanoseconds.
    pub(super) sent: Vec<i64>,
    /// When each came, on the listener's.
    pub(super) received: Vec<Option<i64>>,
    /// Datagrams that the sender's own system refused.
    pub(super) errors: u32,
}

/// A burst of all senders.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    /// Bytes of every frame.
    pub(super) frame: u64,
    /// By sender; one that did not take part is empty.
    pub(super) trains: Vec<Train>,
    /// Datagrams that the listener's own socket had no room for.
    pub(super) host_drops: u64,
}

/// What the first loss of a burst tells about the port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    /// Bytes entered and not left.
    pub(super) counted: f64,
    /// How long those waited that came through the full port, in seconds.
    pub(super) wait: f64,
    /// What the port put out per second while it was full, in bytes.
    pub(super) rate: f64,
    /// Bytes that waited in the senders' own links at that time.
    pub(super) own_queue: f64,
    /// The size of the burst.
    pub(super) burst: u64,
}

/// A datagram of the burst in the listener's time.
#[derive(Clone, Copy, Debug)]
struct Passage {
    entered: i64,
    left: Option<i64>,
}

impl Trace {
    /// Bytes of the burst, without those ahead of it.
    pub(super) fn bytes(&self) -> u64 {
        self.trains.iter().map(|train| train.sent.len().saturating_sub(train.ahead) as u64).sum::<u64>()
            * self.frame
    }

    /// Datagrams of the burst that did not come.
    pub(super) fn lost(&self) -> u64 {
        self.trains.iter().map(|train| missing(train.received.get(train.ahead..))).sum()
    }

    /// Datagrams that senders' systems refused.
    pub(super) fn errors(&self) -> u64 {
        self.trains.iter().map(|train| u64::from(train.errors)).sum()
    }

    /// The least time from every sender's clock to the listener's, where one came.
    pub(super) fn least_delay(&self, sender: usize) -> Option<i64> {
        let train = self.trains.get(sender)?;
        let delays = train.sent.iter().zip(&train.received).take(train.ahead.max(1));
        delays.filter_map(|(sent, received)| Some((*received)? - sent)).min()
    }

    /// What came per second in the later half of the burst, in bytes; a port's first tokens are then gone.
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

    /// What all senders together put out per second during the burst, in bytes; by the times of entry, so that senders that
    /// did not send at the same time do not add up.
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

    /// The longest that a datagram of the burst has waited, in seconds.
    pub(super) fn longest_wait(&self) -> f64 {
        let waits = self.passages().into_iter().filter_map(|passage| Some(passage.left? - passage.entered));
        waits.max().unwrap_or(0).max(0) as f64 / 1e9
    }

    /// What the first loss tells, where each sender's link carries `links` bytes a second. `None`: no loss, or not enough
    /// came to say anything.
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

    /// Bytes in the senders' links at that time, if each link serves what its sender gives it at the link's rate.
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
            // The one that is just being sent is no queue.
            sum += (queue - drained.max(0.0) - self.frame as f64).max(0.0);
        }
        sum
    }
}

fn missing(received: Option<&[Option<i64>]>) -> u64 {
    received.unwrap_or_default().iter().filter(|came| came.is_none()).count() as u64
}

/// What was in the full port leaves it without a gap: the rate of what comes in the time that this takes.
fn rate_when_full(passages: &[Passage], full: i64, wait: i64, frame: f64) -> Option<f64> {
    let mut left: Vec<i64> = passages.iter().filter_map(|passage| passage.left).collect();
    left.retain(|time| (full..full.saturating_add(wait)).contains(time));
    left.sort_unstable();
    let (first, last) = (left.first()?, left.last()?);
    let seconds = (last - first) as f64 / 1e9;
    (left.len() >= 8 && seconds > 0.0).then(|| (left.len() - 1) as f64 * frame / seconds)
}

/// Bytes that have left by that time: the line of the port's rate that no receipt lies before.
fn left_by(passages: &[Passage], at: i64, rate: f64, frame: f64) -> Option<f64> {
    let mut left: Vec<i64> = passages.iter().filter_map(|passage| passage.left).collect();
    left.sort_unstable();
    // Far from it, an error of the rate would tilt the line.
    let reach = waits_when_full(passages, at).last().copied()?.max(1_000_000);
    let near = left.iter().enumerate().filter(|(_, time)| (**time - at).abs() <= reach);
    let behind = near.map(|(before, time)| (before + 1) as f64 * frame - (*time - at) as f64 / 1e9 * rate);
    let most = behind.fold(f64::NEG_INFINITY, f64::max);
    // The line runs through the instants at which a packet has just left; in between, half of one has on average not.
    most.is_finite().then(|| (most - frame / 2.0).max(0.0))
}

/// How long those waited that came through at about the time of the first loss, in order: an eighth of the longest wait
/// around it, for later the senders may have paused and the port be less than full.
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

/// Datagrams around the first loss that are looked at in any case.
const NEAREST: usize = 4;
