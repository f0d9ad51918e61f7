//! The entries of a supervisor's journal as plain structures. The fields of the structures are
//! documented in `proto/journal.proto`.
#![allow(missing_docs, clippy::large_enum_variant)]

use crate::id::RunId;

use super::{
    control::{self, Begin, Episode, Exclusion},
    encoding::{choices, enumerations, messages},
};

enumerations! {
    pub enum Change { Unspecified = 0, Added = 1, Leaving = 2, Gone = 3 }
}

choices! {
    allow(missing_docs);
    pub enum What {
        Begun(Begun) = 2, Epoch(u64) = 3, Registered(Registered) = 4, Started(Started) = 5, Roster(RosterChange) = 6,
        Decided(Decided) = 7, Reassigned(Reassigned) = 8, Accounted(Accounted) = 9, Over(u32) = 10, Lost(Lost) = 11,
        Membership(Membership) = 12, Finding(Finding) = 13, Paused(bool) = 14, Stopping(String) = 15,
        Ended(u32) = 16, Totals(Totals) = 17, Rate(f64) = 18, Resumed(Resumed) = 19, Begin(Begin) = 20,
        Judged(Judged) = 21, Episode(Episode) = 22, Exclusion(Exclusion) = 23,
    }
}

messages! {
    allow(missing_docs);
    /// An entry of the journal: a time and a change. After a damaged entry, the reader looks for
    /// entries with both, to find out if the journal continues.
    pub struct Entry { at_ns: u64 = 1, what: Option<What> = 0 }
    pub struct Begun {
        run: u32 = 1, epoch: u64 = 2, seed: u64 = 3, sources: Vec<u32> = 4, builders: Vec<u32> = 5,
        boot_id: String = 6, run_id: RunId = 7,
    }
    pub struct Registered {
        role: control::Role = 1, id: u32 = 2, incarnation: u32 = 3, max_fragment: u64 = 4, listen: String = 5,
        highest_run: u64 = 6,
    }
    #[derive(Copy)]
    pub struct Started {}
    /// Another supervisor continues the run. Earlier times are converted to its clock: they stay
    /// unchanged if the boot id is the same; otherwise they are shifted so that the last entry
    /// happens now.
    pub struct Resumed { boot_id: String = 1 }
    pub struct RosterChange {
        version: u32 = 1, up: Vec<u32> = 2, awaited: Vec<u32> = 3, quiet: Vec<u32> = 4, excluded: Vec<u32> = 5,
        released: Vec<u32> = 6,
    }
    pub struct Decided {
        decisions: Option<control::Decisions> = 1, roster_version: u32 = 2, triggered_ns: Vec<u64> = 3,
        blames: Vec<Blame> = 4,
    }
    #[derive(Copy)]
    pub struct Blame { cause: u32 = 1, id: u32 = 2, inhibited: u64 = 3 }
    /// A builder that took over unassigned events, and these events.
    pub struct Reassigned { builder: u32 = 1, events: Vec<u64> = 2 }
    /// Completions of a builder that are new in the ledger.
    pub struct Accounted { builder: u32 = 1, completions: Option<control::Completions> = 2 }
    pub struct Lost { events: Vec<u64> = 1, cause: String = 2 }
    #[derive(Copy)]
    pub struct Membership { builder: u32 = 1, change: Change = 2 }
    pub struct Finding { problem: String = 1, failure: bool = 2, remark: bool = 3 }
    /// A change in whether a source is known to deliver fragments of other events.
    pub struct Judged { source: u32 = 1, is_misaligned: bool = 2, since: u64 = 3, sentence: String = 4 }
    /// The state of the run, which replaces all earlier entries.
    pub struct Totals {
        triggered: u64 = 1, inhibited: u64 = 2, lost: u64 = 3, roster_version: u32 = 4,
        expectations: Vec<Expectation> = 5, sources: Vec<SourceTotals> = 6, builders: Vec<BuilderTotals> = 7,
        held: Vec<Held> = 8, blames: Vec<Blame> = 9, losses: Vec<CauseOfLoss> = 10, first_trigger_ns: u64 = 11,
        started_ns: u64 = 12, last_completion_ns: u64 = 13, up: Vec<u32> = 14, awaited: Vec<u32> = 15,
        excluded: Vec<u32> = 16, released: Vec<u32> = 17,
    }
    pub struct Expectation { version: u32 = 1, sources: Vec<u32> = 2, quiet: Vec<u32> = 3, excluded: Vec<u32> = 4 }
    pub struct SourceTotals {
        incarnation: u32 = 1, max_fragment: u64 = 2, missing: u64 = 3, down_ns: u64 = 4, down: bool = 6,
        missing_by_cause: Vec<u64> = 7, absent_by_cause: Vec<u64> = 8,
    }
    pub struct BuilderTotals {
        id: u32 = 1, incarnation: u32 = 2, listen: String = 3, accounted: u64 = 4, over: bool = 5,
        membership: Change = 6, present: Option<BuilderCounts> = 7, past: Option<BuilderCounts> = 8,
        past_written: u64 = 9, past_payload_bytes: u64 = 10, highest_run: u64 = 11,
    }
    #[derive(Copy)]
    pub struct BuilderCounts {
        assigned: u64 = 1, complete: u64 = 2, incomplete: u64 = 3, rejected: u64 = 4, lost: u64 = 5, moved: u64 = 6,
        lost_with_it: u64 = 7, faults: u64 = 8,
    }
    pub struct Held { builder: u32 = 1, version: u32 = 2, events: Vec<u64> = 3, triggered_ns: Vec<u64> = 4 }
    pub struct CauseOfLoss { cause: String = 1, events: u64 = 2 }
}
