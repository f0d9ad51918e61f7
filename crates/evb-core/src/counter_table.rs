//! The table of the counters that sources and builders report. A row declares a counter once:
//!
//! ```text
//! /// The meaning, in one sentence.
//! name: type = number in the message [place, metric, rank];
//! ```
//!
//! | place | the counter is in |
//! |---|---|
//! | `wire` | the report of the source or builder only |
//! | `report` | also the report of the run, `--summary` |
//! | `status` | also the status during the run |
//!
//! `counter "name"` or `gauge "name"` is the metric of a counter in the status. `unused Rank "why"`
//! marks data that arrived and are not used; `why` is the label of the metric for all of them, and
//! is empty if the counter has a metric of its own.
//!
//! From the rows follow the messages ([`wire::control`](crate::wire::control)), the summaries
//! ([`ledger`](crate::ledger)), the status ([`supervisor`](crate::supervisor)) with its metrics,
//! and rows of `docs/how-to/monitor.md` and `docs/reference/unused-data.md`. A new counter needs a
//! row here, the place that counts, and its line in `proto/control.proto`.

/// Passes the rows of a source's report to another macro, behind other tokens. The numbers ascend,
/// because this is the order of the encoded fields.
macro_rules! source_counters {
    ($to:ident! { $($with:tt)* }) => { $to! { $($with)*
        /// Fragments that readout pushed.
        pushed: u64 = 1 [status counter "source_pushed_fragments"];
        /// Payload bytes of the fragments that readout pushed.
        pushed_bytes: u64 = 2 [status counter "source_pushed_bytes"];
        announced: u64 = 3 [wire];
        /// Lane bytes that the source sent, including repetitions.
        sent_bytes: u64 = 4 [status counter "source_sent_bytes"];
        /// Fragments of the source whose events a sink accepted.
        committed: u64 = 5 [report];
        /// Fragments that the source dropped because their event was inhibited.
        inhibited: u64 = 6 [report unused Nothing "inhibited"];
        /// Fragments that the source dropped because their event had ended without them.
        closed: u64 = 7 [report unused Problem "event closed"];
        /// Fragments of the source for which no trigger came, or whose event was not assigned to
        /// the builder.
        unexpected: u64 = 8 [report unused Remark "no trigger"];
        /// Fragments that readout pushed once more with the same payload and timestamp.
        repeats: u64 = 9 [report unused Remark "repeated"];
        /// Fragments that the source keeps because no sink has accepted them.
        uncommitted: u64 = 10 [status gauge "source_uncommitted_fragments" unused Nothing ""];
        /// TCP segments that the source's kernel sent again.
        tcp_retransmits: u64 = 11 [status counter "source_tcp_retransmits"];
        /// Highest number of bytes in the source's backlog.
        backlog_peak_bytes: u64 = 12 [status];
        /// Reconnections of the source's lanes.
        reconnects: u64 = 13 [status counter "source_reconnects"];
        /// Lane ranges that the source sent again.
        resends: u64 = 14 [status counter "source_resends"];
        departures: u64 = 15 [wire];
        late_p50_ns: u64 = 16 [wire];
        late_p99_ns: u64 = 17 [wire];
        late_max_ns: u64 = 18 [wire];
        forfeited_ns: u64 = 19 [wire];
        trains: Option<TrainReport> = 20 [wire];
        stages: Option<Box<GrantStages>> = 21 [wire];
        /// Fragments that the source refused from readout, because they were too large, too far
        /// ahead of the run, or had event id 0; the source's log names them.
        refused: u64 = 22 [status counter "source_refused_fragments" unused Problem "refused"];
        paths: Vec<PathReport> = 23 [wire];
        /// Fragments of front ends that arrived before the start of the run, and were kept.
        kept_before_start: u64 = 24 [status counter "source_kept_before_start_fragments"];
        /// Fragments of front ends that arrived before the start of the run, and were discarded.
        discarded_before_start: u64 = 25 [report unused Remark "before the start"];
        /// Fragments that readout pushed once more, too late to be compared with the first ones.
        repeats_not_compared: u64 = 26 [report unused Remark "not compared"];
        /// Fragments that readout pushed for an event for which it had pushed another one before,
        /// with another payload or timestamp; the first one is used.
        contradictions: u64 = 27 [status unused Problem "contradicting"];
        contradiction: Option<ContradictionReport> = 28 [wire];
        /// Fragments that were discarded because their front end stated another run.
        of_other_runs: u64 = 29 [report unused Remark "of another run"];
        /// Fragments of front ends that were cut off, or whose bytes cannot be a fragment.
        malformed: u64 = 30 [report unused Remark "malformed"];
        /// Lowest version of the front-end protocol by which fragments of the run came; 0 if none
        /// came from front ends.
        front_end_protocol: u32 = 31 [status];
        /// Fragments whose front end did not state their run.
        run_not_stated: u64 = 32 [status];
        /// Times at which the trigger counter of the source's boards left out numbers.
        counter_gaps: u64 = 33 [status counter "source_numbering_gaps"];
        /// Numbers that the trigger counter of the source's boards left out, and those that came
        /// late.
        counter_skipped: u64 = 34 [status counter "source_numbering_skipped"];
        /// Fragments whose trigger counter came after a later one.
        counter_late: u64 = 35 [status counter "source_numbering_late_fragments"];
        /// Times at which the trigger counter of the source's boards left out 0 as it wrapped.
        counter_zero_skips: u64 = 36 [status counter "source_numbering_zero_skips"];
        /// Times at which the trigger counter of the source's boards fell or leapt.
        counter_resets: u64 = 37 [status counter "source_numbering_resets"];
        /// Fragments without an event, because their trigger counter fell or leapt, or the board
        /// was not reset before the run.
        unplaced: u64 = 38 [status unused Problem "counter reset"];
        /// Fragments without an event, because their trigger counter may have wrapped unseen.
        lost_wraps: u64 = 39 [status unused Problem "counter wrapped"];
        /// Fragments without an event, because their trigger counter has too many bits, or does not
        /// grow in its steps.
        counter_invalid: u64 = 40 [status unused Problem "counter invalid"];
        /// Last event of the run for which readout pushed a fragment.
        last_event: u64 = 41 [report];
        /// Fragments of events from which the source was excluded.
        pushed_while_excluded: u64 = 42 [status counter "source_excluded_fragments" unused Nothing "excluded"];
        /// Bytes that boards sent and that belong to no frame.
        garbage_bytes: u64 = 43 [status counter "source_garbage_bytes" unused Remark ""];
        /// Times at which the source looked for the next frame in the bytes of a board, because
        /// what followed was none.
        resyncs: u64 = 44 [status counter "source_resynchronisations"];
        /// Packets of boards that never came, as the numbers of the others show.
        lost_packets: u64 = 45 [status counter "source_lost_packets"];
        /// Packets of boards that came twice, too late, or from another sender.
        unused_packets: u64 = 46 [status counter "source_unused_packets" unused Remark ""];
        /// Packets of boards that the kernel dropped, because the buffer of the socket was full.
        socket_drops: u64 = 47 [status counter "source_socket_drops"];
    } };
}

/// Passes the rows of a builder's report about one lane to another macro, behind other tokens. The
/// report of the run has their sums over all builders, for each source; the status has their sums
/// over all lanes, for each builder.
macro_rules! lane_counters {
    ($to:ident! { $($with:tt)* }) => { $to! { $($with)*
        /// Fragments that builders received from the source.
        fragments: u64 = 2 [report];
        /// Payload bytes of the fragments that builders received from the source.
        payload_bytes: u64 = 3 [report];
        missing: u64 = 4 [wire];
        /// Fragments that arrived after their event had ended.
        late: u64 = 5 [status counter "builder_late_fragments" unused Problem ""];
        /// Fragments that arrived twice.
        duplicate: u64 = 6 [status counter "builder_duplicate_fragments" unused Nothing ""];
        unexpected: u64 = 7 [wire];
        /// Fragments with a wrong checksum.
        crc_errors: u64 = 8 [status counter "builder_crc_errors" unused Problem ""];
        /// Events to which the source contributed the last fragment.
        last: u64 = 9 [report];
        last_by_ns: u64 = 10 [wire];
        /// Stalls of the source's lanes.
        stalls: u64 = 11 [report];
        reconnects: u64 = 12 [wire];
        segments: u64 = 13 [wire];
        absent: u64 = 14 [wire];
        lost_bytes: u64 = 15 [wire];
        resends: u64 = 16 [wire];
        timeouts: u64 = 17 [wire];
        late_after_loss: u64 = 18 [wire];
        duplicate_segments: u64 = 19 [wire];
        /// Fragments whose timestamp is not that of their event.
        disagreeing: u64 = 20 [status counter "builder_disagreeing_fragments"];
        /// Fragments in complete events of which packets were lost before they reached the source.
        lossy: u64 = 21 [status counter "builder_lossy_fragments"];
    } };
}

/// Passes those rows of a table to another macro that are in the report of the run or in the
/// status: `select! { status then! { tokens } {} rows }` becomes `then! { tokens { rows } }`.
macro_rules! select {
    ($at:ident $then:ident! { $($with:tt)* } $taken:tt) => { $then! { $($with)* $taken } };
    (
        $at:ident $then:ident! $with:tt $taken:tt
        $(#[doc = $doc:literal])* $field:ident: $type:ty = $number:literal [wire];
        $($rest:tt)*
    ) => { select! { $at $then! $with $taken $($rest)* } };
    (
        status $then:ident! $with:tt $taken:tt
        $(#[doc = $doc:literal])* $field:ident: $type:ty = $number:literal [report $($note:tt)*];
        $($rest:tt)*
    ) => { select! { status $then! $with $taken $($rest)* } };
    (
        $at:ident $then:ident! $with:tt { $($taken:tt)* }
        $(#[doc = $doc:literal])* $field:ident: $type:ty = $number:literal [$place:ident $($note:tt)*];
        $($rest:tt)*
    ) => {
        select! { $at $then! $with { $($taken)* $(#[doc = $doc])* $field: $type [$($note)*]; } $($rest)* }
    };
}

/// Declares a structure for people and programs, with the fields in braces and the selected rows of
/// the tables of some reports; how to copy these counters from each report; and the list of them.
/// The caller has `Counted`, `Counter`, `Metric` and `Rank` of `ledger` in scope.
macro_rules! counted {
    (
        $(#[$attribute:meta])* pub struct $name:ident { $($fields:tt)* }
        $($report:ident {
            $($(#[doc = $doc:literal])* $field:ident: $type:ty [$($note:tt)*];)*
        })*
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $($fields)*
            $($($(#[doc = $doc])* pub $field: $type,)*)*
        }

        $(impl Counted<$report> for $name {
            fn copy(&mut self, report: &$report) {
                $(self.$field = report.$field;)*
            }
        })*

        impl $name {
            /// The counters of these fields that peers report.
            pub const COUNTERS: &[Counter<Self>] = &[$($(Counter {
                name: stringify!($field),
                sentence: concat!($($doc),*),
                metric: metric!($($note)*),
                unused: unused!($($note)*),
                value: |own| u64::from(own.$field),
            }),*),*];
        }
    };
}

/// Returns the metric in the notes of a row.
macro_rules! metric {
    (counter $name:literal $($rest:tt)*) => {
        Some(Metric::Counter($name))
    };
    (gauge $name:literal $($rest:tt)*) => {
        Some(Metric::Gauge($name))
    };
    ($($rest:tt)*) => {
        None
    };
}

/// Returns the rank and the label of unused data in the notes of a row.
macro_rules! unused {
    (unused $rank:ident $why:literal) => { Some((Rank::$rank, $why)) };
    ($kind:ident $name:literal $($rest:tt)*) => { unused!($($rest)*) };
    () => { None };
}

pub(crate) use {counted, lane_counters, metric, select, source_counters, unused};
