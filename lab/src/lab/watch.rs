//! [`Watch`] observes the rates of sources and builders at the switch, independently of evb's own
//! reports, and measures pauses.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

/// Number of bytes that each host has sent and received so far.
pub(crate) type Flows = BTreeMap<String, (u64, u64)>;

/// Time over which a rate is measured.
const WINDOW: Duration = Duration::from_millis(400);
/// Share of its usual rate at which a host counts as healthy.
const ENOUGH: f64 = 0.4;

/// Observer of the recent rates of all hosts.
pub(crate) struct Watch {
    samples: VecDeque<(Duration, Flows)>,
    /// Usual rate that a source sends, and usual rate that a builder receives, in bytes per second.
    usual: (f64, f64),
    builders: f64,
    quiet_since: Option<Duration>,
    longest_pause: Duration,
}

impl Watch {
    pub(crate) fn new(usual: (f64, f64), builders: u16) -> Self {
        let builders = f64::from(builders);
        Self { samples: VecDeque::new(), usual, builders, quiet_since: None, longest_pause: Duration::ZERO }
    }

    /// Records the current counters of the switch, and updates the length of a pause.
    pub(crate) fn look(&mut self, now: Duration, flows: Flows) {
        while self.samples.len() > 2 && self.samples[1].0 + WINDOW < now {
            self.samples.pop_front();
        }
        self.samples.push_back((now, flows));
        let all = self.rates().filter(|(host, _, _)| host.starts_with('b')).map(|(_, _, to)| to).sum::<f64>();
        if all >= self.usual.1 * self.builders * ENOUGH {
            self.quiet_since = None;
        } else {
            let since = *self.quiet_since.get_or_insert(now);
            self.longest_pause = self.longest_pause.max(now - since);
        }
    }

    /// Returns true if every source sends and every builder receives at least 40 % of its usual
    /// rate.
    pub(crate) fn is_whole(&self) -> bool {
        let mut hosts = 0;
        let goes = self.rates().all(|(host, from, to)| {
            hosts += 1;
            match host.as_bytes().first() {
                Some(b'b') => to >= self.usual.1 * ENOUGH,
                Some(b's') if host != "sup" => from >= self.usual.0 * ENOUGH,
                _ => true,
            }
        });
        goes && hosts > 0
    }

    /// Returns the longest time since the last call in which all builders together received less
    /// than 40 % of their usual rate.
    pub(crate) fn take_pause(&mut self) -> Duration {
        self.quiet_since = None;
        std::mem::take(&mut self.longest_pause)
    }

    /// Returns the rates that each host sends and receives, in bytes per second.
    fn rates(&self) -> impl Iterator<Item = (&str, f64, f64)> {
        let ends = self.samples.front().zip(self.samples.back()).filter(|(first, last)| first.0 < last.0);
        ends.into_iter().flat_map(|((then, before), (now, after))| {
            let seconds = (*now - *then).as_secs_f64();
            after.iter().map(move |(host, (from, to))| {
                let (old_from, old_to) = before.get(host).copied().unwrap_or_default();
                let rate = |now: &u64, then: u64| now.saturating_sub(then) as f64 / seconds;
                (host.as_str(), rate(from, old_from), rate(to, old_to))
            })
        })
    }
}

#[cfg(test)]
mod tests;
