//! The evaluation of one burst, computed only from the times at which datagrams left their senders
//! and reached the listener.
//!
//! A sender's datagrams ahead of the burst find the port empty. The smallest difference between
//! their arrival times (listener's clock) and sending times (sender's clock) is the delay of a
//! datagram without a queue, including the offset between the clocks; these two parts need not be
//! known separately. A datagram's time of *entry* into the port is its sending time plus the delay
//! without a queue.
//!
//! The port is full at the moment when it loses the first datagram. A full port holds the bytes
//! that have entered and have not left: `buffer = entered − left`. Bytes that a token bucket lets
//! through at once at the start have left, so that they do not count. The port sends at a constant
//! rate while it has a queue, and the recorded time of an arrival can only be late. Therefore the
//! bytes that have left are not read from single arrivals, but from the straight line with the
//! port's rate that lies before all recorded arrivals.

/// The datagrams that one sender sends for a burst.
#[derive(Clone, Debug, Default)]
pub(super) struct Train {
    /// Number of datagrams that are sent ahead of the burst.
    pub(super) ahead: usize,
    /// Sending times by the sender's clock, in nanoseconds.
    pub(super) sent: Vec<i64>,
    /// Arrival times by the listener's clock, in nanoseconds; `None` for a lost datagram.
    pub(super) received: Vec<Option<i64>>,
    /// Number of datagrams that the sender's operating system refused.
    pub(super) errors: u32,
}

/// The record of a burst from all senders.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    /// Size of each L2 frame in bytes.
    pub(super) frame: u64,
    /// Datagrams of each sender; empty if a sender did not take part.
    pub(super) trains: Vec<Train>,
    /// Number of datagrams that the listener's host dropped because the socket was full.
    pub(super) host_drops: u64,
}

/// An estimate of the port's buffer from the first loss of a burst.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    /// Bytes that had entered the port and had not left it at the time of the first loss.
    pub(super) counted: f64,
    /// Time that datagrams waited in the full port, in seconds.
    pub(super) wait: f64,
    /// Rate of the full port, in bytes per second.
    pub(super) rate: f64,
    /// Bytes that waited in the senders' own links at the time of the first loss.
    pub(super) own_queue: f64,
    /// Size of the burst in bytes.
    pub(super) burst: u64,
}

/// The times of a datagram's entry into the port and exit from it, by the listener's clock.
#[derive(Clone, Copy, Debug)]
struct Passage {
    entered: i64,
    left: Option<i64>,
}

impl Trace {
    /// Returns the size of the burst in bytes, without the datagrams ahead of it.
    pub(super) fn bytes(&self) -> u64 {
        self.trains.iter().map(|train| train.sent.len().saturating_sub(train.ahead) as u64).sum::<u64>()
            * self.frame
    }

    /// Returns the number of datagrams of the burst that did not arrive.
    pub(super) fn lost(&self) -> u64 {
        self.trains.iter().map(|train| missing(train.received.get(train.ahead..))).sum()
    }

    /// Returns the number of datagrams that the senders' operating systems refused.
    pub(super) fn errors(&self) -> u64 {
        self.trains.iter().map(|train| u64::from(train.errors)).sum()
    }

    /// Returns the smallest difference between arrival and sending time of a sender's datagrams
    /// ahead of the burst.
    pub(super) fn least_delay(&self, sender: usize) -> Option<i64> {
        let train = self.trains.get(sender)?;
        let delays = train.sent.iter().zip(&train.received).take(train.ahead.max(1));
        delays.filter_map(|(sent, received)| Some((*received)? - sent)).min()
    }

    /// Returns the rate of arrival in the second half of the burst, in bytes per second. After the
    /// first half, a port with a token bucket has no saved tokens left.
    pub(super) fn rate(&self) -> Option<f64> {
        let mut came: Vec<i64> = Vec::new();
        for train in &self.trains {
            came.extend(train.received.iter().skip(train.ahead).flatten());
        }
        came.sort_unstable();
        // Fewer than eight arrivals show no rate.
        let later = came.get(came.len() / 2..).filter(|later| later.len() >= 8)?;
        let (first, last) = (*later.first()?, *later.last()?);
        let seconds = (last - first) as f64 / 1e9;
        (seconds > 0.0).then(|| (later.len() - 1) as f64 * self.frame as f64 / seconds)
    }

    /// Returns the rate at which datagrams of all senders entered the port, in bytes per second.
    /// The times of entry make the rate correct even if the senders did not send at the same time.
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

    /// Returns the longest time that a datagram of the burst waited in the port, in seconds.
    pub(super) fn longest_wait(&self) -> f64 {
        let waits = self.passages().into_iter().filter_map(|passage| Some(passage.left? - passage.entered));
        waits.max().unwrap_or(0).max(0) as f64 / 1e9
    }

    /// Estimates the buffer from the first loss, if each sender's link carries `links` bytes per
    /// second. `None` if no datagram was lost, or if too few arrived.
    pub(super) fn estimate(&self, links: &[f64]) -> Option<Estimate> {
        let passages = self.passages();
        let full =
            passages.iter().filter(|passage| passage.left.is_none()).map(|passage| passage.entered).min()?;
        let frame = self.frame as f64;
        let before =
            |passage: &&Passage| passage.entered < full || passage.entered == full && passage.left.is_some();
        let entered = passages.iter().filter(before).count() as f64 * frame;
        let waits = waits_when_full(&passages, full);
        // The longest waits may be outliers, so the one that seven eighths do not exceed counts.
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

    /// Returns the passages of all datagrams of the burst, without the datagrams ahead of it. A
    /// datagram enters the port at its sending time plus its sender's least delay, and leaves it
    /// when it arrives. A sender without a known delay is left out.
    fn passages(&self) -> Vec<Passage> {
        let mut passages = Vec::new();
        for (sender, train) in self.trains.iter().enumerate() {
            let Some(delay) = self.least_delay(sender) else { continue };
            let times = train.sent.iter().zip(&train.received).skip(train.ahead);
            passages.extend(times.map(|(sent, left)| Passage { entered: sent + delay, left: *left }));
        }
        passages
    }

    /// Returns the bytes that wait at the time `at`, by the listener's clock, in the senders'
    /// hosts, if their links send at the rates `links` in bytes per second. Each link is computed
    /// as a fluid queue: a datagram adds a whole frame when it is sent, and the link drains the
    /// queue steadily.
    fn own_queue(&self, at: i64, links: &[f64]) -> f64 {
        let frame = self.frame as f64;
        let mut waiting = 0.0;
        for (sender, train) in self.trains.iter().enumerate() {
            let (Some(delay), Some(link)) = (self.least_delay(sender), links.get(sender)) else { continue };
            let burst = train.sent.iter().skip(train.ahead);
            let mut queue = 0.0_f64;
            let mut last_sent = None;
            for sent in burst.take_while(|sent| **sent + delay <= at) {
                let since_last = last_sent.map_or(0, |last| sent.saturating_sub(last));
                queue = drained(queue, since_last, *link) + frame;
                last_sent = Some(*sent);
            }
            let since_last = last_sent.map_or(0, |last: i64| at.saturating_sub(last.saturating_add(delay)));
            // The datagram in transmission does not wait. A whole frame is subtracted for it,
            // although a part of it may have left the queue already, so the sum is too low by less
            // than a frame for each sender.
            waiting += (drained(queue, since_last, *link) - frame).max(0.0);
        }
        waiting
    }
}

/// Returns what is left of a queue, in bytes, after a link has sent for `nanos` at the rate `link`
/// in bytes per second.
fn drained(queue: f64, nanos: i64, link: f64) -> f64 {
    (queue - nanos as f64 / 1e9 * link).max(0.0)
}

fn missing(received: Option<&[Option<i64>]>) -> u64 {
    received.unwrap_or_default().iter().filter(|came| came.is_none()).count() as u64
}

/// Returns the rate of the full port. The port sends its queue without gaps, so that the arrivals
/// after the first loss, for as long as a datagram waits in the port, show its rate.
fn rate_when_full(passages: &[Passage], full: i64, wait: i64, frame: f64) -> Option<f64> {
    let mut left: Vec<i64> = passages.iter().filter_map(|passage| passage.left).collect();
    left.retain(|time| (full..full.saturating_add(wait)).contains(time));
    left.sort_unstable();
    let (first, last) = (left.first()?, left.last()?);
    let seconds = (last - first) as f64 / 1e9;
    (left.len() >= 8 && seconds > 0.0).then(|| (left.len() - 1) as f64 * frame / seconds)
}

/// Returns the bytes that have left the port by the time `at`: the value of the straight line with
/// the port's rate that lies before all arrivals.
fn left_by(passages: &[Passage], at: i64, rate: f64, frame: f64) -> Option<f64> {
    let mut left: Vec<i64> = passages.iter().filter_map(|passage| passage.left).collect();
    left.sort_unstable();
    // Only arrivals near this time count, because an error of the rate would shift the line for
    // distant arrivals.
    let reach = waits_when_full(passages, at).last().copied()?.max(1_000_000);
    let near = left.iter().enumerate().filter(|(_, time)| (**time - at).abs() <= reach);
    let behind = near.map(|(before, time)| (before + 1) as f64 * frame - (*time - at) as f64 / 1e9 * rate);
    let most = behind.fold(f64::NEG_INFINITY, f64::max);
    // The line gives the bytes at the instants at which a packet has just left. Between the
    // departures of two packets, half a packet on average has not left.
    most.is_finite().then(|| (most - frame / 2.0).max(0.0))
}

/// Returns the sorted waiting times of datagrams that entered the port near the time of the first
/// loss, within an eighth of the longest waiting time. For datagrams farther away, senders may have
/// paused, and the port may have been less than full.
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

/// Smallest number of datagrams around the first loss that are evaluated.
const NEAREST: usize = 4;
