//! [`Counts`]: total counts of events, faults and other actions in one or more runs.

use core::{ops::AddAssign, time::Duration};
use std::collections::BTreeMap;

/// Total counts of events, faults and other actions in one or more runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Runs whose ledger was closed.
    pub runs: u64,
    /// Events that were triggered, as counted by the ledger.
    pub triggered: u64,
    /// Events that were inhibited.
    pub inhibited: u64,
    /// Complete events.
    pub complete: u64,
    /// Incomplete events.
    pub incomplete: u64,
    /// Events that the filter rejected.
    pub rejected: u64,
    /// Lost events.
    pub lost: u64,
    /// Event records on disk that are further copies of an event, under another epoch.
    pub copies: u64,
    /// Processes that were started.
    pub processes: u64,
    /// Lanes that were connected.
    pub lanes: u64,
    /// Registrations of processes with a supervisor, including the first of each process.
    pub registrations: u64,
    /// Supervisors that recovered a run from its journal.
    pub recoveries: u64,
    /// Number of times that a process was run.
    pub turns: u64,
    /// Datagrams that were sent.
    pub datagrams: u64,
    /// Datagrams that the network lost.
    pub datagrams_lost: u64,
    /// Ranges of lane bytes for which a retransmission was requested.
    pub resends: u64,
    /// Simulated time.
    pub time: Duration,
    /// Number of faults of each kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Runs and fragments whose timestamps were compared, by what became of them.
    pub boards: BTreeMap<&'static str, u64>,
}

impl AddAssign<&Self> for Counts {
    fn add_assign(&mut self, other: &Self) {
        self.runs += other.runs;
        self.triggered += other.triggered;
        self.inhibited += other.inhibited;
        self.complete += other.complete;
        self.incomplete += other.incomplete;
        self.rejected += other.rejected;
        self.lost += other.lost;
        self.copies += other.copies;
        self.processes += other.processes;
        self.lanes += other.lanes;
        self.registrations += other.registrations;
        self.recoveries += other.recoveries;
        self.turns += other.turns;
        self.datagrams += other.datagrams;
        self.datagrams_lost += other.datagrams_lost;
        self.resends += other.resends;
        self.time += other.time;
        for (kind, count) in &other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for (kind, count) in &other.boards {
            *self.boards.entry(kind).or_default() += count;
        }
    }
}
