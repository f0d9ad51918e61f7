//! The control messages as plain structures. The fields of the structures are documented in
//! `proto/control.proto`.
#![allow(missing_docs, clippy::large_enum_variant)]

use crate::{
    id::RunId,
    wire::{
        control::{GrantStages, LaneReport, SourceReport},
        encoding::{choices, enumerations, messages},
    },
};

enumerations! {
    pub enum Role { Unspecified = 0, Supervisor = 1, Source = 2, Builder = 3 }
    pub enum Reason {
        Unspecified = 0, ProtocolVersion = 1, Incarnation = 2, Run = 3, UnknownPeer = 4, DuplicateId = 5, WrongRole = 6,
        WrongId = 7, Malformed = 8, RunOver = 9, Configuration = 10,
    }
    pub enum ReadoutState { Unspecified = 0, Present = 1, Silent = 2, Gone = 3 }
    pub enum Outcome { Unspecified = 0, Incomplete = 1, Rejected = 2, Lost = 3 }
}

choices! {
    derive(Eq);
    pub enum Reply { Welcome(Welcome) = 1, Refusal(Refusal) = 2 }
    pub enum Message {
        Roster(Roster) = 1, Decisions(Decisions) = 2, Assignments(Assignments) = 3, Completions(Completions) = 4,
        Heartbeat(Heartbeat) = 5, Stop(Stop) = 6, Finish(Finish) = 7, Report(Report) = 8, RunEnd(RunEnd) = 9,
        Triggers(Triggers) = 10, Ready(Ready) = 11, Accounted(Accounted) = 12, Accepted(Accepted) = 13,
        Holdings(Holdings) = 14, Begin(Begin) = 15, Begun(Begun) = 16, Leaving(Leaving) = 17,
        Readout(ReadoutStatus) = 18, Alignment(AlignmentReport) = 19, ReadingsWanted(ReadingsWanted) = 20,
        Readings(Readings) = 21, Learn(Learn) = 22, Episodes(Episodes) = 23,
        Changes(Changes) = 24,
    }
    pub enum RoleReport { Source(SourceReport) = 1, Builder(BuilderReport) = 2 }
}

messages! {
    derive(Eq);
    /// First message on every connection, sent by the side that connects.
    pub struct Hello {
        role: Role = 1, id: u32 = 2, to_role: Role = 3, to_id: u32 = 4, boot_id: String = 7, software: String = 8, listen: String = 9, max_fragment: u64 = 10, datagrams: bool = 11,
        incarnation: u32 = 12, to_incarnation: u32 = 13, run_id: RunId = 14,
        highest_run: u64 = 15, unable: String = 16, clock: Option<Clock> = 17, tap: String = 18,
    }
    /// Answer to a `Hello`: either a `Welcome` or a `Refusal`.
    pub struct HelloReply { reply: Option<Reply> = 0 }
    #[derive(Copy)]
    pub struct Welcome {
        epoch: u64 = 1, run: u32 = 2, parameters: Option<RunParameters> = 3, lane: Option<LaneState> = 4,
        connection: u32 = 5, incarnation: u32 = 6, run_id: RunId = 7,
    }
    #[derive(Copy)]
    pub struct RunParameters {
        slots: u32 = 1, deadline_ns: u64 = 2, orphan_timeout_ns: u64 = 3, heartbeat_ns: u64 = 4, decided: u64 = 5,
        shared_clock: bool = 6, lease_ns: u64 = 7, patience_ns: u64 = 8, report_ns: u64 = 9,
        under_way: bool = 10,
    }
    /// The builder's state of a lane, from which the source continues.
    #[derive(Copy)]
    pub struct LaneState { received: u64 = 1, announced: u64 = 2, committed: u64 = 3 }
    pub struct Refusal { reason: Reason = 1, detail: String = 2 }
    /// Any message on a control connection after the handshake.
    pub struct Control { message: Option<Message> = 0 }
    /// The sources that events expect, and the addresses of builders. A version of the roster is
    /// sent before the first message that refers to it.
    pub struct Roster {
        version: u32 = 1, sources: Vec<u32> = 2, up: Vec<u32> = 3, builders: Vec<BuilderAddress> = 4,
        max_fragment: Vec<u64> = 5, incarnations: Vec<u32> = 6, awaited: Vec<u32> = 7,
        quiet: Vec<u32> = 8, excluded: Vec<u32> = 9, expendable: Vec<u32> = 10, released: Vec<u32> = 11,
        sporadic: Vec<u32> = 12, sporadic_wait_ns: u64 = 13,
    }
    pub struct BuilderAddress { id: u32 = 1, listen: String = 2, incarnation: u32 = 3 }
    /// Decisions for all event ids from `first` on, run-length coded.
    pub struct Decisions { first: u64 = 1, runs: Vec<u32> = 2 }
    /// Events that the receiving builder has to build.
    pub struct Assignments {
        roster_version: u32 = 1, events: Vec<u64> = 2, triggered_ns: Vec<u64> = 3, epoch: u64 = 4,
        expected: Vec<u32> = 5, answer: u32 = 6, utc_zero_ns: u64 = 7, excluded: Vec<u32> = 8,
    }
    /// A builder's confirmation that it has slots for all events assigned to it up to the message
    /// with this `answer`.
    #[derive(Copy)]
    pub struct Accepted { answer: u32 = 1 }
    /// Number of completions of the builder's present incarnation that are in the ledger. The
    /// sources of these events may forget the fragments.
    #[derive(Copy)]
    pub struct Accounted { completions: u64 = 1 }
    /// The builders of all outstanding events up to `decided`, for a source that may have missed
    /// decisions, or whose lanes have ended. Other events up to `decided` are closed.
    pub struct Holdings { decided: u64 = 1, held: Vec<Holding> = 2 }
    pub struct Holding { holder: u32 = 1, events: Vec<u64> = 2 }
    pub struct Completions {
        complete: Vec<u64> = 1, exceptions: Vec<Exception> = 2, before: u64 = 3, absences: Vec<Absence> = 4,
    }
    /// Complete events in a row that lack fragments of the same sources, which did not owe them.
    pub struct Absence { events: u32 = 1, sources: Vec<u32> = 2, causes: Vec<u32> = 3 }
    pub struct Exception {
        event: u64 = 1, outcome: Outcome = 2, missing: Vec<u32> = 3, cause: String = 4,
        missing_causes: Vec<u32> = 5,
    }
    #[derive(Copy)]
    pub struct Heartbeat {
        sent_ns: u64 = 1, echo_ns: u64 = 2, echo_delay_ns: u64 = 3, load: Option<Load> = 4, is_paused: bool = 5,
    }
    /// Number of events that occupy a builder's slots, by what they wait for.
    #[derive(Copy)]
    pub struct Load {
        building: u32 = 1, at_sink: u32 = 2, slowest: u32 = 3, slowest_events: u32 = 4, others_events: u32 = 5,
    }
    /// Facts that a run has from its beginning on. A peer prepares for the first event, and answers
    /// with [`Begun`].
    pub struct Begin {
        run: u32 = 1, run_id: RunId = 2, begun_utc_ns: u64 = 3, begun_ns: u64 = 4, clock_state: u32 = 5,
        kind: String = 6, comment: String = 7, sources: Vec<Name> = 8, builders: Vec<Name> = 9,
        clocks: Vec<Clock> = 10, lead: u32 = 11, host_times: bool = 12,
        relations: Option<ClockRelations> = 13,
    }
    /// Name of a source or builder.
    pub struct Name { id: u32 = 1, name: String = 2 }
    /// The declared clock of a source's timestamps.
    #[derive(Copy)]
    pub struct Clock {
        source: u32 = 1, rate_uhz: u64 = 2, bits: u32 = 3, wrap: u64 = 4, tolerance_ns: u64 = 5, accuracy_ppb: u64 = 6,
    }
    /// A builder's doubts about clocks, and the relations of all clocks at that time.
    pub struct AlignmentReport {
        doubts: Vec<ClockDoubt> = 1, returned: Vec<u32> = 2, relations: Option<ClockRelations> = 3,
    }
    #[derive(Copy)]
    pub struct ClockDoubt { source: u32 = 1, first: u64 = 2, is_suspect: bool = 3, is_tie: bool = 4 }
    /// Relations of the clocks, in the order of [`Begin`], to the lead's time.
    pub struct ClockRelations { lead: u32 = 1, at: u64 = 2, host_ns: u64 = 3, clocks: Vec<ClockRelation> = 4 }
    /// The relation of one clock to the lead's time. The last numbers are the bits of
    /// floating-point numbers.
    #[derive(Copy)]
    pub struct ClockRelation {
        ticks: u64 = 1, at: u64 = 2, is_proven: bool = 3, phase: u64 = 4, rate: u64 = 5, bound: u64 = 6,
        is_suspect: bool = 7, blur: u64 = 8,
    }
    /// The supervisor's question for the timestamps of a source's last events, to be answered when
    /// the source has the fragment of `event`.
    #[derive(Copy)]
    pub struct ReadingsWanted { question: u32 = 1, event: u64 = 2 }
    /// A source's answer: its last events with their timestamps, beginning with the last one. The
    /// numbers are differences to those before, modulo 2⁶⁴.
    pub struct Readings { question: u32 = 1, events: Vec<u64> = 2, ticks: Vec<u64> = 3 }
    /// The timestamps of a source are right behind the event `after`, so builders learn its clock
    /// again from there.
    #[derive(Copy)]
    pub struct Learn { source: u32 = 1, after: u64 = 2 }
    /// Episodes of a run that are new or have changed, for the files of the builders.
    pub struct Episodes { episodes: Vec<Episode> = 1 }
    /// Events in which something was wrong with the timestamps of a source, and what it was.
    pub struct Episode {
        source: u32 = 1, since: u64 = 2, until: u64 = 3, kind: String = 4, shift: u64 = 5,
        is_misaligned: bool = 6, is_disputed: bool = 7, sentence: String = 8,
    }
    /// All exclusions and inclusions of a run so far, for the files of the builders.
    pub struct Changes { changes: Vec<Exclusion> = 1 }
    /// A source that owes no fragments from an event on, or owes them again.
    pub struct Exclusion { source: u32 = 1, is_excluded: bool = 2, from: u64 = 3, why: String = 4, utc_ns: u64 = 5 }
    /// A peer's answer to [`Begin`]: it is ready for events, unless it gives a reason why not.
    pub struct Begun { refusal: String = 1, highest_run: u64 = 2 }
    /// The reason for which a peer ends its part in the run before the run is over.
    pub struct Leaving { reason: String = 1 }
    /// The state of a source's readout, and the number of front ends that should be connected and
    /// that are. A source sends it when something changes, and on every new connection.
    #[derive(Copy)]
    pub struct ReadoutStatus {
        state: ReadoutState = 1, expected: u32 = 2, connected: u32 = 3, holds_first: bool = 4,
    }
    pub struct Stop { cause: String = 1 }
    #[derive(Copy)]
    pub struct Finish {}
    pub struct RunEnd { exit_code: u32 = 1, verdict: String = 2 }
    /// A source's confirmation that the lanes to all builders of the newest roster are connected.
    /// The source sends `Ready` after every roster, as soon as the lanes are connected.
    #[derive(Copy)]
    pub struct Ready {}
    #[derive(Copy)]
    pub struct Triggers { count: u64 = 1 }
    pub struct Report { report: Option<RoleReport> = 0, live: Option<Live> = 3 }
    /// Fields that only interim reports have. `latency` is the only histogram in a builder's
    /// interim report, whose `lanes` are those that have changed.
    pub struct Live {
        backlog_bytes: u64 = 1, backlog_fragments: u64 = 2, building: u32 = 3, at_sink: u32 = 4,
        since_commit_ns: u64 = 5, latency: Vec<u64> = 6, disk_free_bytes: u64 = 7, disk_bytes: u64 = 8,
        processor_ns: u64 = 9, memory_bytes: u64 = 10, since_fragment_ns: u64 = 11,
    }
    pub struct BuilderReport {
        complete: u64 = 1, incomplete: u64 = 2, rejected: u64 = 3, lost: u64 = 4, written: u64 = 5,
        payload_bytes: u64 = 6, lanes: Vec<LaneReport> = 7, latency_us: Vec<u64> = 8, latency_max_us: u64 = 9,
        memory_peak_bytes: u64 = 10, grant_delay_us: Vec<u64> = 11, clock_error_ns: u64 = 12,
        datagrams: Option<DatagramReport> = 13, times: Option<DatagramTimes> = 14,
        grant_first_byte_us: Vec<u64> = 15, stages: Option<Box<GrantStages>> = 16,
        refusals: Option<RefusalReport> = 20, sum: Option<Box<LaneReport>> = 21, gone: String = 22,
        tap: Option<TapReport> = 23, filter: Option<FilterReport> = 24, files: Option<FilesReport> = 25,
    }
    /// Work of the processes of a builder's filter in this run. All judged events were kept,
    /// dropped, or failed to get a verdict.
    pub struct FilterReport {
        workers: u32 = 1, ready: u32 = 2, judged: u64 = 3, kept: u64 = 4, dropped: u64 = 5, failed: u64 = 6,
        restarts: u64 = 7, fault: String = 8,
    }
    /// Files that a builder has closed in the run: their number, and the latest of them.
    pub struct FilesReport { closed: u64 = 1, latest: Vec<FileReport> = 2 }
    pub struct FileReport { path: String = 1, size: u64 = 2, events: u64 = 3, checksum: u64 = 4 }
    /// Events by what became of them at the clients of a builder's tap, over all clients so far.
    #[derive(Copy)]
    pub struct TapReport { clients: u32 = 1, seen: u64 = 2, sent: u64 = 3, sampled_out: u64 = 4, dropped: u64 = 5 }
    /// Times of repairs and round trips on lanes over datagrams. Histograms are pairs (value in µs,
    /// count).
    pub struct DatagramTimes { recovery_us: Vec<u64> = 1, recovery_max_us: u64 = 2, round_trip_us: Vec<u64> = 3 }
    /// Connections that were refused, or closed because their bytes were not those of a peer.
    #[derive(Copy)]
    pub struct RefusalReport {
        foreign: u64 = 1, keys: u64 = 2, malformed: u64 = 3, silent: u64 = 4, unwelcome: u64 = 5, limited: u64 = 6,
        forged: u64 = 7, version: u64 = 8,
    }
    #[derive(Copy)]
    pub struct DatagramReport {
        damaged: u64 = 1, foreign: u64 = 2, stale: u64 = 3, receive_drops: u64 = 4, forged: u64 = 5,
        replayed: u64 = 6,
    }
}
