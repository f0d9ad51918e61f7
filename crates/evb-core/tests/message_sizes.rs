//! Tests of the sizes of control messages in a run of 4096 sources and 1024 builders: those that
//! docs/reference/protocol.md states (CTRL-11).
#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::{collections::BTreeMap, path::Path};

use evb_core::{
    event::Cause,
    id::RunId,
    ledger::Annotation,
    set::MAX_SOURCES,
    wire::{
        control::{
            Absence, AlignmentReport, Assignments, Begin, BuilderAddress, BuilderReport, Changes, Clock,
            ClockDoubt, ClockRelation, ClockRelations, Completions, ContradictionReport, Control,
            DatagramReport, DatagramTimes, Decisions, Episode, Episodes, Exception, Exclusion, FileReport,
            FilesReport, GrantStages, Holding, Holdings, LaneReport, Live, MAX_BATCH, MAX_BUILDERS,
            MAX_CAUSE, MAX_CHANGED, MAX_CHANGES, MAX_EPISODES, MAX_EXCEPTIONS, MAX_FILE_PATH, MAX_FILES,
            MAX_LATEST_FILES, MAX_MESSAGE, MAX_MISSING, MAX_NAME, MAX_OUTSTANDING, MAX_PATHS, Message, Name,
            Outcome, PathReport, RefusalReport, Report, RoleReport, Roster, SourceReport, TrainReport,
        },
        encoding::Encoding as _,
    },
};

/// The largest id, which takes most bytes.
const ID: u32 = u16::MAX as u32;
/// The largest number of 64 bits.
const MOST: u64 = u64::MAX;
/// Pairs in a histogram of up to one hour with a resolution of 1 % and of 0.1 %.
const COARSE: usize = 3328;
const FINE: usize = 23_552;

fn size(message: Message) -> usize {
    Control { message: Some(message) }.encoded_len()
}

fn report(report: RoleReport, live: Option<Live>) -> usize {
    size(Message::Report(Report { report: Some(report), live }))
}

/// Returns a histogram of durations up to one hour.
fn histogram(pairs: usize) -> Vec<u64> {
    [3_600_000_000, u32::MAX.into()].repeat(pairs)
}

fn stages() -> Option<Box<GrantStages>> {
    Some(Box::new(GrantStages { wake_us: histogram(COARSE), write_us: histogram(COARSE) }))
}

fn live() -> Live {
    Live {
        backlog_bytes: MOST,
        backlog_fragments: MOST,
        building: u32::MAX,
        at_sink: u32::MAX,
        since_commit_ns: MOST,
        latency: [255, MOST].repeat(256),
        disk_free_bytes: MOST,
        disk_bytes: MOST,
        processor_ns: MOST,
        memory_bytes: MOST,
        since_fragment_ns: MOST,
    }
}

fn source(stages: Option<Box<GrantStages>>) -> SourceReport {
    SourceReport {
        pushed: MOST,
        pushed_bytes: MOST,
        announced: MOST,
        sent_bytes: MOST,
        committed: MOST,
        inhibited: MOST,
        closed: MOST,
        unexpected: MOST,
        repeats: MOST,
        uncommitted: MOST,
        tcp_retransmits: MOST,
        backlog_peak_bytes: MOST,
        reconnects: MOST,
        resends: MOST,
        departures: MOST,
        late_p50_ns: MOST,
        late_p99_ns: MOST,
        late_max_ns: MOST,
        forfeited_ns: MOST,
        trains: Some(TrainReport { send_drops: MOST, segmentation_refused: MOST, uncut: MOST }),
        stages,
        refused: MOST,
        paths: Vec::new(),
        kept_before_start: MOST,
        discarded_before_start: MOST,
        repeats_not_compared: MOST,
        contradictions: MOST,
        contradiction: Some(ContradictionReport {
            event: MOST,
            first_timestamp: MOST,
            second_timestamp: MOST,
        }),
        of_other_runs: MOST,
        malformed: MOST,
        front_end_protocol: u32::MAX,
        run_not_stated: MOST,
        counter_gaps: MOST,
        counter_skipped: MOST,
        counter_late: MOST,
        counter_zero_skips: MOST,
        counter_resets: MOST,
        unplaced: MOST,
        lost_wraps: MOST,
        counter_invalid: MOST,
        last_event: MOST,
        pushed_while_excluded: MOST,
        garbage_bytes: MOST,
        resyncs: MOST,
        lost_packets: MOST,
        unused_packets: MOST,
        socket_drops: MOST,
    }
}

/// Returns the largest final report of a source.
fn final_of_source() -> SourceReport {
    let path = PathReport { builder: ID, tcp_retransmits: MOST, resends: MOST };
    SourceReport { paths: vec![path; MAX_PATHS], ..source(stages()) }
}

fn lane() -> LaneReport {
    LaneReport {
        source: ID,
        fragments: MOST,
        payload_bytes: MOST,
        missing: MOST,
        late: MOST,
        duplicate: MOST,
        unexpected: MOST,
        crc_errors: MOST,
        last: MOST,
        last_by_ns: MOST,
        stalls: MOST,
        reconnects: MOST,
        segments: MOST,
        absent: MOST,
        lost_bytes: MOST,
        resends: MOST,
        timeouts: MOST,
        late_after_loss: MOST,
        duplicate_segments: MOST,
        disagreeing: MOST,
        lossy: MOST,
    }
}

/// Returns the largest files in a report of a builder.
fn files(count: usize) -> FilesReport {
    let path = "x".repeat(MAX_FILE_PATH);
    FilesReport {
        closed: MOST,
        latest: vec![FileReport { path, size: MOST, events: MOST, checksum: MOST }; count],
    }
}

/// Returns the largest interim report of a builder.
fn interim() -> BuilderReport {
    let changed = LaneReport { source: ID, last: MOST, last_by_ns: MOST, ..LaneReport::default() };
    BuilderReport {
        complete: MOST,
        incomplete: MOST,
        rejected: MOST,
        lost: MOST,
        written: MOST,
        payload_bytes: MOST,
        lanes: vec![changed; MAX_CHANGED],
        sum: Some(Box::new(lane())),
        files: Some(files(MAX_LATEST_FILES)),
        latency_max_us: MOST,
        memory_peak_bytes: MOST,
        ..BuilderReport::default()
    }
}

/// Returns the largest final report of a builder.
fn last() -> BuilderReport {
    let (recovery_us, round_trip_us) = (histogram(COARSE), histogram(COARSE));
    BuilderReport {
        lanes: vec![lane(); MAX_SOURCES],
        sum: None,
        latency_us: histogram(FINE),
        grant_delay_us: histogram(COARSE),
        grant_first_byte_us: histogram(COARSE),
        clock_error_ns: MOST,
        datagrams: Some(DatagramReport {
            damaged: MOST,
            foreign: MOST,
            stale: MOST,
            receive_drops: MOST,
            forged: MOST,
            replayed: MOST,
        }),
        times: Some(DatagramTimes { recovery_us, recovery_max_us: MOST, round_trip_us }),
        stages: stages(),
        refusals: Some(RefusalReport {
            foreign: MOST,
            keys: MOST,
            malformed: MOST,
            silent: MOST,
            unwelcome: MOST,
            limited: MOST,
            forged: MOST,
            version: MOST,
        }),
        ..interim()
    }
}

fn roster() -> Roster {
    let address = BuilderAddress { id: ID, listen: "x".repeat(300), incarnation: u32::MAX };
    Roster {
        version: u32::MAX,
        sources: vec![ID; MAX_SOURCES],
        up: vec![ID; MAX_SOURCES],
        builders: vec![address; MAX_BUILDERS],
        max_fragment: vec![MOST; MAX_SOURCES],
        incarnations: vec![u32::MAX; MAX_SOURCES],
        // A source is either up or awaited.
        awaited: Vec::new(),
        quiet: vec![ID; MAX_SOURCES],
        excluded: vec![ID; MAX_SOURCES],
        expendable: vec![ID; MAX_SOURCES],
        released: vec![ID; MAX_SOURCES],
        sporadic: vec![ID; MAX_SOURCES],
        sporadic_wait_ns: MOST,
    }
}

/// Returns the beginning of a run with the longest name for each source and builder.
fn begin() -> Begin {
    let names = |count| vec![Name { id: ID, name: "n".repeat(MAX_NAME) }; count];
    Begin {
        run: u32::MAX,
        run_id: RunId::new(u128::MAX),
        begun_utc_ns: MOST,
        begun_ns: MOST,
        clock_state: 2,
        kind: "k".repeat(Annotation::MAX_KIND),
        comment: "c".repeat(Annotation::MAX_COMMENT),
        sources: names(MAX_SOURCES),
        builders: names(MAX_BUILDERS),
        clocks: vec![
            Clock {
                source: ID,
                rate_uhz: MOST,
                bits: 0,
                wrap: MOST,
                tolerance_ns: MOST,
                accuracy_ppb: MOST,
            };
            MAX_SOURCES
        ],
        lead: ID,
        host_times: true,
        relations: Some(relations()),
    }
}

/// Returns the relations of every clock.
fn relations() -> ClockRelations {
    let relation = ClockRelation {
        ticks: MOST,
        at: MOST,
        is_proven: true,
        phase: MOST,
        rate: MOST,
        bound: MOST,
        is_suspect: true,
        blur: MOST,
    };
    ClockRelations { lead: ID, at: MOST, host_ns: MOST, clocks: vec![relation; MAX_SOURCES] }
}

/// Returns the doubts of a builder about every clock.
fn doubts() -> AlignmentReport {
    let doubt = ClockDoubt { source: ID, first: MOST, is_suspect: true, is_tie: true };
    AlignmentReport {
        doubts: vec![doubt; MAX_SOURCES],
        returned: vec![ID; MAX_SOURCES],
        relations: Some(relations()),
    }
}

/// Returns as many episodes as are kept, with the longest sentence.
fn episodes() -> Episodes {
    let episode = Episode {
        source: ID,
        since: MOST,
        until: MOST,
        kind: "single timestamps".to_owned(),
        shift: MOST,
        is_misaligned: true,
        is_disputed: true,
        sentence: "s".repeat(100 + MAX_NAME),
    };
    Episodes { episodes: vec![episode; MAX_EPISODES] }
}

/// Returns as many changes as are kept, with the longest reason.
fn changes() -> Changes {
    let change = Exclusion { source: ID, is_excluded: true, from: MOST, why: "w".repeat(200), utc_ns: MOST };
    Changes { changes: vec![change; MAX_CHANGES] }
}

/// Returns completions with as many missing and absent sources as one message has, all of them
/// absent.
fn completions() -> Completions {
    let exception = |missing| Exception {
        event: MOST,
        outcome: Outcome::Lost,
        missing: vec![ID; missing],
        cause: "\u{10ffff}".repeat(MAX_CAUSE),
        missing_causes: vec![Cause::Expendable.code().into(); missing],
    };
    let events = MAX_BATCH as usize;
    let absent = MAX_MISSING / events;
    let causes = vec![Cause::Expendable.code().into(); absent];
    let absence = Absence { events: 1, sources: vec![ID; absent], causes };
    Completions {
        complete: vec![MOST; events],
        exceptions: vec![exception(0); MAX_EXCEPTIONS],
        before: MOST,
        absences: vec![absence; events],
    }
}

/// Returns the list of the most outstanding events, which lie within 2³¹ event ids.
fn holdings() -> Holdings {
    let each = MAX_OUTSTANDING / MAX_BUILDERS;
    let events = [vec![1 << 62], vec![(1 << 31) / each as u64 - 1; each - 1]].concat();
    let held = vec![Holding { holder: ID + 1, events }; MAX_BUILDERS];
    Holdings { decided: 1 << 63, held }
}

fn sizes() -> BTreeMap<String, usize> {
    let events = MAX_BATCH as usize;
    let decisions = Decisions { first: MOST, runs: [1, ID + 2].repeat(events) };
    let assignments = Assignments {
        roster_version: 0,
        events: vec![MOST; events],
        triggered_ns: vec![MOST; events],
        epoch: MOST,
        expected: vec![ID; MAX_SOURCES],
        answer: u32::MAX,
        utc_zero_ns: MOST,
        excluded: vec![ID; MAX_SOURCES],
    };
    let of_files = || BuilderReport { files: Some(files(MAX_FILES)), ..BuilderReport::default() };
    let sizes = [
        ("`Begin`", size(Message::Begin(begin()))),
        ("`AlignmentReport`", size(Message::Alignment(doubts()))),
        ("`Episodes`", size(Message::Episodes(episodes()))),
        ("`Changes`", size(Message::Changes(changes()))),
        ("`Roster`", size(Message::Roster(roster()))),
        ("`Decisions`", size(Message::Decisions(decisions))),
        ("`Assignments`", size(Message::Assignments(assignments))),
        ("`Completions`", size(Message::Completions(completions()))),
        ("`Holdings`", size(Message::Holdings(holdings()))),
        (
            "interim `Report` of a source",
            report(RoleReport::Source(source(None)), Some(Live { latency: Vec::new(), ..live() })),
        ),
        ("interim `Report` of a builder", report(RoleReport::Builder(interim()), Some(live()))),
        ("final `Report` of a source", report(RoleReport::Source(final_of_source()), None)),
        ("final `Report` of a builder", report(RoleReport::Builder(last()), None)),
        ("last `Report` of a builder", report(RoleReport::Builder(of_files()), Some(Live::default()))),
    ];
    sizes.map(|(name, size)| (name.to_owned(), size)).into()
}

/// Returns the table on the page: the messages with their largest sizes in bytes.
fn page() -> BTreeMap<String, usize> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/protocol.md");
    let text = std::fs::read_to_string(path).unwrap();
    let table = text.lines().skip_while(|line| !line.starts_with("| largest message |")).skip(2);
    let rows = table.take_while(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        (cells[1].to_owned(), cells[2].replace(' ', "").parse().unwrap())
    });
    rows.collect()
}

#[test]
fn no_message_is_larger_than_the_page_says() {
    let (sizes, page) = (sizes(), page());
    assert_eq!(sizes.keys().collect::<Vec<_>>(), page.keys().collect::<Vec<_>>());
    for (name, size) in sizes {
        let most = page[&name];
        assert!(size <= most && most <= MAX_MESSAGE, "{name} takes {size} bytes, the page says {most}");
        assert!(most - size <= most / 10, "{name} takes only {size} bytes, the page says {most}");
    }
}

/// The reports of a second reach the supervisor over one link.
#[test]
fn the_interim_reports_of_the_largest_run_fit_a_slow_link() {
    let typical =
        |lane: LaneReport| LaneReport { source: 4000, last: 100_000, last_by_ns: 100_000_000, ..lane };
    let builder = |lanes| BuilderReport {
        complete: 1_000_000,
        written: 1_000_000,
        payload_bytes: 10_000_000_000,
        lanes,
        sum: Some(Box::new(LaneReport {
            fragments: 4_000_000_000,
            payload_bytes: 10_000_000_000,
            ..typical(LaneReport::default())
        })),
        latency_max_us: 100_000,
        memory_peak_bytes: 1_000_000_000,
        ..BuilderReport::default()
    };
    let live = || Live { latency: [40, 100_000].repeat(40), memory_bytes: 1_000_000_000, ..Live::default() };
    let of_builder = |lanes| report(RoleReport::Builder(builder(lanes)), Some(live()));
    let of_source = report(
        RoleReport::Source(SourceReport {
            pushed: 1_000_000,
            pushed_bytes: 1 << 40,
            ..SourceReport::default()
        }),
        Some(Live { backlog_bytes: 1_000_000, ..Live::default() }),
    );
    let all = |lanes| MAX_SOURCES * of_source + MAX_BUILDERS * of_builder(lanes);
    let changed = typical(LaneReport::default());
    // At 10 kHz, each builder has ten events in a second, with one last source each.
    let (usual, most) = (all(vec![changed; 10]), all(vec![changed; MAX_CHANGED]));
    assert!(usual < 1_000_000 && most < 6_000_000, "{usual} and {most} bytes in a second");
    let all_lanes = LaneReport { fragments: 1_000_000, payload_bytes: 1 << 32, ..LaneReport::default() };
    let before = all(vec![typical(all_lanes); MAX_SOURCES]);
    assert!(before > 100_000_000, "{before} bytes with all lanes in each report");
}
