//! [`History`]: the faults that have happened, which explain that events are lost.

use core::time::Duration;

use evb_core::{
    id::{BuilderId, Peer},
    session::LANE_UNACKNOWLEDGED,
    time::Instant,
};

use crate::system::{disk::DiskState, fault::Fault, scenario::Scenario};

/// Two of the supervisor's leases: the time after which other builders get the events of a builder
/// that is silent.
const LEASES: Duration = Duration::from_secs(2);

/// Time in which peers that are back have registered, and have connected their lanes.
const REJOIN: Duration = Duration::from_secs(2);

/// Time after a fault in which its effects may still be seen, such as connections that end.
const AFTERMATH: Duration = Duration::from_secs(12);

/// The faults that have happened, and the first loss of a run that they must explain.
#[derive(Debug, Default)]
pub(super) struct History {
    /// Faults that may have an effect on the current run, and the times at which they began.
    faults: Vec<(Instant, Fault)>,
    /// Time at which the supervisor first counted more lost events than disks refused.
    lost_at: Option<Instant>,
}

impl History {
    /// Forgets what has no effect on a run that is opened now.
    pub(super) fn open_run(&mut self, now: Instant) {
        self.lost_at = None;
        self.faults.retain(|(at, fault)| *at + fault.length() + AFTERMATH > now);
    }

    pub(super) fn note_fault(&mut self, fault: Fault, now: Instant) {
        self.faults.push((now, fault));
    }

    /// Notes if the supervisor counts more lost events than disks refused now.
    pub(super) fn note_losses(&mut self, are_there: bool, now: Instant) {
        self.lost_at = are_there.then(|| self.lost_at.unwrap_or(now));
    }

    pub(super) fn faults(&self) -> Vec<Fault> {
        self.faults.iter().map(|(_, fault)| *fault).collect()
    }

    /// Returns true if faults may have kept events from being settled for so long that the end of
    /// the run did not wait for them.
    ///
    /// At the end of a run, the supervisor waits as long as events are settled, and gives up if
    /// none has been settled for some time. Faults must have left the system no part of that time
    /// which is long enough to settle an event.
    pub(super) fn explains_losses(&self, scenario: &Scenario) -> bool {
        let Some(at) = self.lost_at else { return true };
        let patience = scenario.deadline + scenario.drain_grace;
        let mut free_since = at.shifted(-(patience.as_nanos() as i64));
        let mut longest = Duration::ZERO;
        for (begin, fault) in self.faults.iter().filter(|(begin, _)| *begin < at) {
            longest = longest.max(begin.since(free_since));
            free_since = free_since.max(*begin + self.block(fault, scenario));
        }
        longest.max(at.since(free_since)) < self.settles_within(scenario)
    }

    /// Returns the time for which a fault may keep the system from settling any event.
    fn block(&self, fault: &Fault, scenario: &Scenario) -> Duration {
        let length = match *fault {
            Fault::Stop
            | Fault::Add { .. }
            | Fault::Exclude { .. }
            | Fault::Pause { .. }
            | Fault::Triggers { .. }
            | Fault::Late { .. } => return Duration::ZERO,
            // The sink takes longer, for which [`Self::settles_within`] allows.
            Fault::Disk { who: Peer::Builder(_), state: DiskState::Slow(_), .. } => return Duration::ZERO,
            Fault::Disk { state: DiskState::Slow(more), length, .. } => length + more,
            // Until the connection is given up, builders wait for what was announced on it.
            Fault::Split { length, .. } => length.min(LANE_UNACKNOWLEDGED),
            // This covers the time until a lane counts as silent and is connected again.
            Fault::Deaf { .. } => Duration::from_secs(7),
            Fault::Kill { who: Peer::Builder(_), down: length }
            | Fault::Reboot { who: Peer::Builder(_), down: length }
            | Fault::Freeze { who: Peer::Builder(_), length }
            | Fault::Cut { who: Peer::Builder(_), length }
            | Fault::Remove { back: length, .. }
                if self.spares_a_builder(scenario) =>
            {
                length.min(LEASES)
            }
            other => other.length(),
        };
        length + LEASES + REJOIN
    }

    /// Returns true if a builder had no faults but delays, and so can get the events of others.
    fn spares_a_builder(&self, scenario: &Scenario) -> bool {
        let is_hit = |builder: u16| {
            let who = Some(Peer::Builder(BuilderId::new(builder)));
            let hits = |fault: &Fault| fault.who() == who && !matches!(fault, Fault::Late { .. });
            self.faults.iter().any(|(_, fault)| hits(fault))
        };
        !(1..=scenario.builders).all(is_hit)
    }

    /// Returns the time within which the system settles an event that is outstanding, if it has no
    /// fault but slow disks.
    fn settles_within(&self, scenario: &Scenario) -> Duration {
        let slower = self.faults.iter().map(|(_, fault)| match *fault {
            Fault::Disk { who: Peer::Builder(_), state: DiskState::Slow(more), .. } => more,
            _ => Duration::ZERO,
        });
        let batch = scenario.commit + scenario.write * scenario.slots + slower.max().unwrap_or_default();
        let weather = &scenario.weather;
        let is_good = weather.loss == 0 && weather.stall == 0 && weather.delay == 0;
        scenario.deadline + batch + Duration::from_secs(if is_good { 1 } else { 4 })
    }
}

#[cfg(test)]
mod tests;
