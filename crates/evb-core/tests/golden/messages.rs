//! One message of each kind, with a value of its own in each field.

use bytes::BytesMut;
use evb_core::{
    alignment::readings_message,
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunId, SourceId},
    wire::{
        control::{
            Absence, Accepted, Accounted, AlignmentReport, Assignments, Begin, Begun, BuilderAddress,
            BuilderReport, Changes, Clock, ClockDoubt, ClockRelation, ClockRelations, Completions,
            ContradictionReport, Control, DatagramReport, DatagramTimes, Decisions, Episode, Episodes,
            Exception, Exclusion, FileReport, FilesReport, FilterReport, Finish, GrantStages, Heartbeat,
            Hello, HelloReply, Holding, Holdings, LaneReport, LaneState, Learn, Leaving, Live, Load, Message,
            Name, Outcome, PathReport, ReadingsWanted, ReadoutState, ReadoutStatus, Ready, Reason, Refusal,
            RefusalReport, Reply, Report, Role, RoleReport, Roster, RunEnd, RunParameters, SourceReport,
            Stop, TapReport, TrainReport, Triggers, Welcome,
        },
        datagram::{Association, DatagramHeader, DatagramKind},
        encoding::Encoding,
        preamble::{ConnectionKind, Spoken, preamble, protected_preamble},
        record::{Announcement, RecordHeader, encode_commit, encode_resend},
    },
};

const EPOCH: u64 = 1_763_731_564_000_000;
const RUN_ID: RunId = RunId::new(0x5eed_cafe << 96 | 7);

/// A named example: the bytes on the network.
pub(crate) type Example = (&'static str, Vec<u8>);

/// Returns the first bytes of each kind of connection, and one message of each kind.
pub(crate) fn all() -> Vec<Example> {
    [preambles(), handshakes(), control(), reports(), records(), datagrams()].concat()
}

fn preambles() -> Vec<Example> {
    let key = |kind| protected_preamble(kind, Spoken::Noise).to_vec();
    vec![
        ("preamble-control", preamble(ConnectionKind::Control).to_vec()),
        ("preamble-lane", preamble(ConnectionKind::Lane).to_vec()),
        ("preamble-control-key", key(ConnectionKind::Control)),
        ("preamble-lane-key", key(ConnectionKind::Lane)),
    ]
}

fn handshakes() -> Vec<Example> {
    let hello = Hello {
        role: Role::Source,
        id: 3,
        to_role: Role::Builder,
        to_id: 1,
        boot_id: "boot".to_owned(),
        software: "evb 0.1.0".to_owned(),
        listen: "10.0.0.1:7001".to_owned(),
        max_fragment: 1 << 20,
        datagrams: true,
        incarnation: 2,
        to_incarnation: 4,
        run_id: RUN_ID,
        highest_run: 7,
        unable: "the disk is full".to_owned(),
        clock: Some(Clock {
            source: 3,
            rate_uhz: 125_000_000_000_000,
            bits: 48,
            wrap: 0,
            tolerance_ns: 1000,
            accuracy_ppb: 100_000,
        }),
        tap: "10.0.0.1:7301".to_owned(),
    };
    let parameters = RunParameters {
        slots: 16,
        deadline_ns: 2_000_000_000,
        orphan_timeout_ns: 5_000_000_000,
        heartbeat_ns: 250_000_000,
        decided: 41,
        shared_clock: true,
        lease_ns: 1_000_000_000,
        patience_ns: 15_000_000_000,
        report_ns: 1_000_000_000,
        under_way: true,
    };
    let lane = LaneState { received: 120, announced: 200, committed: 100 };
    let welcome = Welcome {
        epoch: EPOCH,
        run: 7,
        parameters: Some(parameters),
        lane: Some(lane),
        connection: 0x0a1b_2c3d,
        incarnation: 2,
        run_id: RUN_ID,
    };
    let refusal = Refusal::because(Reason::ProtocolVersion, "install the same release on both");
    let reply = |reply| HelloReply { reply: Some(reply) };
    vec![
        ("hello", framed(&hello)),
        ("welcome", framed(&reply(Reply::Welcome(welcome)))),
        ("refusal", framed(&reply(Reply::Refusal(refusal)))),
    ]
}

fn begin() -> Begin {
    let name = |id, name: &str| Name { id, name: name.to_owned() };
    Begin {
        run: 7,
        run_id: RUN_ID,
        begun_utc_ns: 1_763_731_570_000_000_000,
        begun_ns: 5_000_000,
        clock_state: 1,
        kind: "cosmics".to_owned(),
        comment: "new crate".to_owned(),
        sources: vec![name(3, "TPC crate 1")],
        builders: vec![name(2, "pc2")],
        clocks: vec![Clock {
            source: 3,
            rate_uhz: 125_000_000_000_000,
            bits: 48,
            wrap: 0,
            tolerance_ns: 100,
            accuracy_ppb: 100_000,
        }],
        lead: 4,
        host_times: true,
        relations: Some(relations()),
    }
}

fn relations() -> ClockRelations {
    let relation = ClockRelation {
        ticks: 77,
        at: 64_000,
        is_proven: true,
        phase: 0.25f64.to_bits(),
        rate: 1e-5f64.to_bits(),
        bound: 2e-7f64.to_bits(),
        is_suspect: true,
        blur: 0.5f64.to_bits(),
    };
    ClockRelations { lead: 0, at: 128_000, host_ns: 9_000, clocks: vec![relation] }
}

fn doubts() -> AlignmentReport {
    AlignmentReport {
        doubts: vec![ClockDoubt { source: 3, first: 41, is_suspect: true, is_tie: true }],
        returned: vec![1],
        relations: Some(relations()),
    }
}

fn control() -> Vec<Example> {
    let listen = "10.0.0.1:7001".to_owned();
    let roster = Roster {
        version: 5,
        sources: vec![1, 3, 4000],
        up: vec![1, 3],
        builders: vec![BuilderAddress { id: 2, listen, incarnation: 4 }],
        max_fragment: vec![1000, 2000, 3000],
        incarnations: vec![1, 2, 0],
        awaited: vec![4000],
        quiet: vec![3],
        excluded: vec![1, 3],
        expendable: vec![4000],
        released: vec![3],
        sporadic: vec![4000],
        sporadic_wait_ns: 5_000_000,
    };
    let assignments = Assignments {
        roster_version: 5,
        events: vec![42, 1],
        triggered_ns: vec![5_000_000, 500],
        epoch: EPOCH + 1,
        expected: vec![1, 3],
        answer: 6,
        utc_zero_ns: 0,
        excluded: vec![3],
    };
    let absence = Absence { events: 2, sources: vec![3], causes: vec![16] };
    let exception = Exception {
        event: 44,
        outcome: Outcome::Incomplete,
        missing: vec![3],
        cause: "disk".to_owned(),
        missing_causes: vec![2],
    };
    let completions = Completions {
        complete: vec![86, 1],
        exceptions: vec![exception],
        before: 9,
        absences: vec![absence],
    };
    let load = Load { building: 1, at_sink: 2, slowest: 3, slowest_events: 4, others_events: 5 };
    let heartbeat =
        Heartbeat { sent_ns: 1000, echo_ns: 900, echo_delay_ns: 50, load: Some(load), is_paused: true };
    let run_end = RunEnd { exit_code: 1, verdict: "incomplete".to_owned() };
    let held = vec![Holding { holder: 3, events: vec![42, 1] }, Holding { holder: 0, events: vec![44] }];
    [
        ("roster", Message::Roster(roster)),
        ("decisions", Message::Decisions(Decisions { first: 41, runs: vec![1, 3, 2, 4, 3, 0, 1, 1] })),
        ("assignments", Message::Assignments(assignments)),
        ("completions", Message::Completions(completions)),
        ("heartbeat", Message::Heartbeat(heartbeat)),
        ("begin", Message::Begin(begin())),
        ("begun", Message::Begun(Begun { refusal: "run 7 has files already".to_owned(), highest_run: 8 })),
        ("leaving", Message::Leaving(Leaving { reason: "the sink panicked".to_owned() })),
        (
            "readout",
            Message::Readout(ReadoutStatus {
                state: ReadoutState::Silent,
                expected: 2,
                connected: 1,
                holds_first: true,
            }),
        ),
        ("alignment", Message::Alignment(doubts())),
        ("readings wanted", Message::ReadingsWanted(ReadingsWanted { question: 2, event: 60 })),
        ("readings", Message::Readings(readings_message(2, [(60, 900), (59, 850)].into_iter()))),
        ("learn", Message::Learn(Learn { source: 3, after: 5190 })),
        ("episodes", Message::Episodes(Episodes { episodes: vec![episode()] })),
        ("changes", Message::Changes(Changes { changes: vec![exclusion()] })),
        ("stop", Message::Stop(Stop { cause: "enough".to_owned() })),
        ("finish", Message::Finish(Finish {})),
        ("run-end", Message::RunEnd(run_end)),
        ("triggers", Message::Triggers(Triggers { count: 8 })),
        ("ready", Message::Ready(Ready {})),
        ("accounted", Message::Accounted(Accounted { completions: 12 })),
        ("accepted", Message::Accepted(Accepted { answer: 6 })),
        ("holdings", Message::Holdings(Holdings { decided: 46, held })),
    ]
    .map(|(name, message)| (name, framed(&Control { message: Some(message) })))
    .into()
}

/// Returns what happened to a source.
fn episode() -> Episode {
    Episode {
        source: 3,
        since: 41,
        until: 60,
        kind: "slip".to_owned(),
        shift: (-1i64).cast_unsigned(),
        is_misaligned: true,
        is_disputed: false,
        sentence: "had 1 trigger twice".to_owned(),
    }
}

fn exclusion() -> Exclusion {
    Exclusion { source: 3, is_excluded: true, from: 41, why: "no power".to_owned(), utc_ns: 1_763_000_000 }
}

fn reports() -> Vec<Example> {
    let live = Live {
        backlog_bytes: 1,
        backlog_fragments: 2,
        building: 3,
        at_sink: 4,
        since_commit_ns: 5,
        latency: vec![6, 7],
        disk_free_bytes: 8,
        disk_bytes: 9,
        processor_ns: 10,
        memory_bytes: 11,
        since_fragment_ns: 12,
    };
    let (source, builder) = (RoleReport::Source(source()), RoleReport::Builder(builder()));
    let report = |report, live| {
        framed(&Control { message: Some(Message::Report(Report { report: Some(report), live })) })
    };
    vec![
        ("report-source", report(source.clone(), None)),
        ("report-source-live", report(source, Some(live.clone()))),
        ("report-builder", report(builder.clone(), None)),
        ("report-builder-live", report(builder, Some(live))),
    ]
}

fn source() -> SourceReport {
    SourceReport {
        pushed: 1,
        pushed_bytes: 2,
        announced: 3,
        sent_bytes: 4,
        committed: 5,
        inhibited: 6,
        closed: 7,
        unexpected: 8,
        repeats: 9,
        uncommitted: 10,
        tcp_retransmits: 11,
        backlog_peak_bytes: 12,
        reconnects: 13,
        resends: 14,
        departures: 15,
        late_p50_ns: 16,
        late_p99_ns: 17,
        late_max_ns: 18,
        forfeited_ns: 19,
        trains: Some(TrainReport { send_drops: 1, segmentation_refused: 2, uncut: 3 }),
        stages: Some(stages()),
        refused: 22,
        paths: vec![PathReport { builder: 2, tcp_retransmits: 3, resends: 4 }],
        kept_before_start: 24,
        discarded_before_start: 25,
        repeats_not_compared: 26,
        contradictions: 27,
        contradiction: Some(ContradictionReport { event: 1, first_timestamp: 2, second_timestamp: 3 }),
        of_other_runs: 29,
        malformed: 30,
        front_end_protocol: 31,
        run_not_stated: 32,
        counter_gaps: 33,
        counter_skipped: 34,
        counter_late: 35,
        counter_zero_skips: 36,
        counter_resets: 37,
        unplaced: 38,
        lost_wraps: 39,
        counter_invalid: 40,
        last_event: 41,
        pushed_while_excluded: 42,
        garbage_bytes: 43,
        resyncs: 44,
        lost_packets: 45,
        unused_packets: 46,
        socket_drops: 47,
    }
}

fn stages() -> Box<GrantStages> {
    Box::new(GrantStages { wake_us: vec![1, 2], write_us: vec![3, 4] })
}

fn builder() -> BuilderReport {
    let datagrams =
        DatagramReport { damaged: 1, foreign: 2, stale: 3, receive_drops: 4, forged: 5, replayed: 6 };
    let refusals = RefusalReport {
        foreign: 1,
        keys: 2,
        malformed: 3,
        silent: 4,
        unwelcome: 5,
        limited: 6,
        forged: 7,
        version: 8,
    };
    BuilderReport {
        complete: 1,
        incomplete: 2,
        rejected: 3,
        lost: 4,
        written: 5,
        payload_bytes: 6,
        lanes: vec![lane(3), lane(4000)],
        latency_us: vec![8, 1],
        latency_max_us: 9,
        memory_peak_bytes: 10,
        grant_delay_us: vec![11, 1],
        clock_error_ns: 12,
        datagrams: Some(datagrams),
        times: Some(DatagramTimes { recovery_us: vec![1, 2], recovery_max_us: 3, round_trip_us: vec![4, 5] }),
        grant_first_byte_us: vec![15, 1],
        stages: Some(stages()),
        refusals: Some(refusals),
        sum: Some(Box::new(lane(0))),
        gone: "3 stored events are gone (1-3)".into(),
        tap: Some(TapReport { clients: 1, seen: 2, sent: 3, sampled_out: 4, dropped: 5 }),
        filter: Some(FilterReport {
            workers: 1,
            ready: 2,
            judged: 15,
            kept: 4,
            dropped: 5,
            failed: 6,
            restarts: 7,
            fault: "worker 1 exited with code 3".into(),
        }),
        files: Some(FilesReport {
            closed: 7,
            latest: vec![FileReport {
                path: "/data/run000007-001-0003.evb".into(),
                size: 8,
                events: 9,
                checksum: 10,
            }],
        }),
    }
}

fn lane(source: u32) -> LaneReport {
    LaneReport {
        source,
        fragments: 2,
        payload_bytes: 3,
        missing: 4,
        late: 5,
        duplicate: 6,
        unexpected: 7,
        crc_errors: 8,
        last: 9,
        last_by_ns: 10,
        stalls: 11,
        reconnects: 12,
        segments: 13,
        absent: 14,
        lost_bytes: 15,
        resends: 16,
        timeouts: 17,
        late_after_loss: 18,
        duplicate_segments: 19,
        disagreeing: 20,
        lossy: 21,
    }
}

fn records() -> Vec<Example> {
    let mut announce = BytesMut::from(&RecordHeader::Announce { count: 1, offset: 7 }.encode()[..]);
    Announcement { event: EventId::new(42), timestamp: Timestamp::new(0x0102), length: 9, lost_packets: 0 }
        .encode(&mut announce);
    let data = [&RecordHeader::Data { length: 3, offset: 41 }.encode()[..], b"evb"].concat();
    let (mut commit, mut resend) = (BytesMut::new(), BytesMut::new());
    encode_commit(25, &[41..141, 300..400], &mut commit);
    encode_resend(2, core::slice::from_ref(&(25..41)), &mut resend);
    vec![
        ("record-announce", announce.to_vec()),
        ("record-data", data),
        ("record-grant", RecordHeader::Grant { end: 41 }.encode().to_vec()),
        ("record-commit", commit.to_vec()),
        ("record-resend", resend.to_vec()),
        ("record-announced", RecordHeader::Announced { offset: 66 }.encode().to_vec()),
        ("record-reannounce", RecordHeader::Reannounce { offset: 25 }.encode().to_vec()),
    ]
}

fn datagrams() -> Vec<Example> {
    let association = Association {
        epoch: Epoch::new(EPOCH),
        source: SourceId::new(3),
        builder: BuilderId::new(1),
        connection: 0x0a1b_2c3d,
    };
    let datagram = |kind, request, offset, body: &[u8]| {
        let header = DatagramHeader { kind, request, association, sequence: 5, heard: 2, offset };
        [&header.seal([body])[..], body].concat()
    };
    let grant = RecordHeader::Grant { end: 66 }.encode();
    vec![
        ("datagram-data", datagram(DatagramKind::Data, 2, 25, b"evb")),
        ("datagram-records", datagram(DatagramKind::Records, 0, 0, &grant)),
        ("datagram-probe", datagram(DatagramKind::Probe, 0, 0, &[0; 8])),
        ("datagram-probe-reply", datagram(DatagramKind::ProbeReply, 0, 48, &[])),
    ]
}

fn framed(message: &impl Encoding) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode_framed(&mut bytes);
    bytes
}
