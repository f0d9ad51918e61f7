//! Fuzz target for the supervisor's journal: arbitrary bytes as its file, and arbitrary entries
//! from which a run is recovered and continued.

use std::time::Duration;

use evb::supervisor::fuzzing::{JournalContent, journal_sum, read_journal, write_journal};
use evb_core::wire::encoding::Encoding as _;
use evb_core::{
    supervisor::{Output, RecoverError, Recovery, RunPlan, SupervisorCore, unfinished},
    time::Instant,
    trigger::TriggerKind,
    units::Frequency,
    wire::{
        control::{Control, Hello},
        journal::{
            Change, Entry, Finding, Judged, Lost, Membership, Reassigned, Resumed, RosterChange, What,
        },
    },
};

use crate::{
    script::{Piece, join, pieces},
    supervisor::{REGISTER, SAY, drive, plan, run},
};

/// Length of the journal's file header, in bytes; `FRAME` is the length of an entry's length and
/// checksum.
const HEADER: usize = 8;
const FRAME: usize = 8;

/// Bit in the kind of an input piece that marks a journal entry; a piece without it is something
/// that happens to the supervisor after the recovery.
const ENTRY: u8 = 8;
/// Bit in the kind of the first input piece: the supervisor triggers events periodically.
const CLOCK: u8 = 1 << 7;

/// Current time of the recovering supervisor: later than every entry of the seeds, and within the
/// same boot.
const NOW: Instant = Instant::from_nanos(1 << 40);

/// Reads the bytes as a journal file, unchanged and with corrected checksums, and as a script:
/// journal entries from which the run is recovered, and steps of the recovered supervisor.
///
/// # Panics
/// Panics if reading the file twice gives different entries, if recovering from a snapshot of the
/// recovered run gives another state, or for a reason of [`drive`].
pub fn check(data: &[u8]) {
    check_file(data);
    let mut mended = write_journal(&[]);
    mended.extend_from_slice(data);
    mend(&mut mended);
    check_file(&mended);

    let clock = data.first().is_some_and(|kind| kind & CLOCK != 0);
    let trigger = Frequency::from_hertz(100.0).filter(|_| clock).map(|rate| TriggerKind::Periodic { rate });
    let plan = RunPlan { journal: true, ..plan(trigger.unwrap_or(TriggerKind::External)) };
    let is_entry = |(kind, _): &Piece<'_>| kind & ENTRY != 0;
    let entries = pieces(data).filter(is_entry).filter_map(|(_, bytes)| Entry::decode(bytes).ok());
    let Ok(core) = recover(&plan, entries) else { return };
    check_again(&plan, &core);
    drive(core, pieces(data).filter(|piece| !is_entry(piece)), NOW);
}

fn recover(plan: &RunPlan, entries: impl Iterator<Item = Entry>) -> Result<SupervisorCore, RecoverError> {
    let mut recovery = Recovery::new(plan.clone());
    let mut all = Vec::new();
    for entry in entries {
        recovery.read(&entry);
        all.push(entry);
    }
    let tells = unfinished(all.into_iter().map(Ok::<_, RecoverError>))?;
    let core = recovery.finish(NOW);
    assert!(core.is_err() || tells.is_some(), "a run that is over goes on");
    core
}

/// Checks that recovering from a snapshot of the recovered run gives the same state.
fn check_again(plan: &RunPlan, core: &SupervisorCore) {
    let again = recover(plan, core.snapshot(NOW).into_iter());
    let again = again.unwrap_or_else(|fault| panic!("{fault}: {:?}", core.snapshot(NOW)));
    let state = |core: &SupervisorCore| (core.progress(), core.decided(), core.peers());
    assert_eq!(state(core), state(&again));
}

fn check_file(bytes: &[u8]) {
    match read_journal(bytes) {
        JournalContent::Whole(entries, whole) => {
            assert!(whole <= bytes.len() && (whole > 0 || entries.is_empty()));
            if whole > 0 {
                // The contents are compared as text, because a floating-point NaN does not equal
                // itself.
                let cut = read_journal(&bytes[..whole]);
                assert_eq!(
                    format!("{cut:?}"),
                    format!("{:?}", JournalContent::Whole(entries.clone(), whole))
                );
            }
            // An entry with nothing but fields of later protocol versions has an empty encoding.
            if entries.iter().all(|entry| entry.encoded_len() > 0) {
                let written = write_journal(&entries);
                let again = read_journal(&written);
                let expected = JournalContent::Whole(entries, written.len());
                assert_eq!(format!("{again:?}"), format!("{expected:?}"));
            }
        }
        JournalContent::Damaged(at) => {
            assert!((HEADER..bytes.len()).contains(&at));
            let before = read_journal(&bytes[..at]);
            assert!(matches!(before, JournalContent::Whole(_, whole) if whole == at), "{before:?}");
        }
        JournalContent::Foreign => {}
    }
}

/// Corrects the checksum of every journal entry that lies within the bytes.
fn mend(bytes: &mut [u8]) {
    let mut at = HEADER;
    while let Some(length) = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        let body = at + FRAME;
        let end = body + u32::from_le_bytes(*length) as usize;
        let Some(sum) = bytes.get(body..end).map(journal_sum) else { return };
        bytes[at + 4..body].copy_from_slice(&sum.to_le_bytes());
        at = end;
    }
}

/// Returns the journal entries that a supervisor writes during the first `steps` steps of a run,
/// and a snapshot of its state afterwards.
fn written(trigger: TriggerKind, steps: usize) -> [Vec<Entry>; 2] {
    let mut now = Instant::from_nanos(1_000_000);
    let plan = RunPlan { journal: true, ..plan(trigger) };
    let mut core = SupervisorCore::new(plan, 3, now).expect("the plan makes sense");
    let (peers, mut entries) = (core.peers(), Vec::new());
    for (kind, bytes) in run().into_iter().take(steps) {
        match kind & 3 {
            REGISTER => drop(core.register(&Hello::decode(&bytes).expect("our own"), now)),
            SAY => {
                let message = Control::decode(&bytes).expect("our own");
                core.handle_message(peers[usize::from(kind >> 4)], message, now);
            }
            _ => {}
        }
        now += Duration::from_millis(50);
        core.handle_timeout(now);
        while let Some(output) = core.poll(now) {
            if let Output::Journal(entry) = output {
                entries.push(*entry);
            }
        }
    }
    [entries, core.snapshot(now)]
}

/// Returns journal entries of an eventful run: builder 2 dies and builder 1 gets its event, builder
/// 9 joins and leaves, an operator changes the rate and pauses the run, and the run ends.
fn eventful() -> impl Iterator<Item = Entry> {
    let finding = |failure, remark| Finding { problem: "the disk".to_owned(), failure, remark };
    let sentence = "missed 1 trigger".to_owned();
    let whats = [
        What::Over(2),
        What::Judged(Judged { source: 5, is_misaligned: true, since: 2, sentence }),
        What::Epoch(200),
        What::Reassigned(Reassigned { builder: 1, events: vec![2] }),
        What::Membership(Membership { builder: 9, change: Change::Added }),
        What::Membership(Membership { builder: 9, change: Change::Gone }),
        What::Roster(RosterChange {
            version: 9,
            up: vec![1],
            awaited: vec![0],
            quiet: vec![1],
            ..RosterChange::default()
        }),
        What::Rate(2000.0),
        What::Paused(true),
        What::Finding(finding(false, true)),
        What::Finding(finding(true, false)),
        What::Resumed(Resumed { boot_id: "elsewhere".to_owned() }),
        What::Lost(Lost { events: vec![1], cause: "nobody came".to_owned() }),
        What::Stopping("enough".to_owned()),
    ];
    whats.into_iter().map(|what| Entry { at_ns: 1 << 30, what: Some(what) })
}

/// Returns the seed corpus, with each journal as a script and as a file: journals of a run after
/// several numbers of steps, each as single entries and as a snapshot, followed by the steps of a
/// complete run.
pub fn seeds() -> Vec<Vec<u8>> {
    let rate = Frequency::from_hertz(100.0).expect("that is a rate");
    let mut seeds = Vec::new();
    for (trigger, clock) in [(TriggerKind::External, 0), (TriggerKind::Periodic { rate }, CLOCK)] {
        for steps in [0, 4, 6, 7, 9, 11, usize::MAX] {
            for journal in written(trigger, steps) {
                let eventful: Vec<Entry> = journal.iter().cloned().chain(eventful()).collect();
                seeds.extend([script(&journal, clock), script(&eventful, clock)]);
                // The file header is cut off, because `check` adds it.
                seeds.push(write_journal(&eventful).split_off(HEADER));
            }
        }
    }
    seeds
}

fn script(journal: &[Entry], clock: u8) -> Vec<u8> {
    let mut script: Vec<_> = journal.iter().map(|entry| (ENTRY, entry.encode_to_vec())).collect();
    if let Some((kind, _)) = script.first_mut() {
        *kind |= clock;
    }
    for (kind, bytes) in run() {
        // Every peer has been connected to the supervisor before the recovery, so its hello states
        // the incarnation.
        let known = |hello| Hello { incarnation: 1, ..hello }.encode_to_vec();
        let hello = Hello::decode(&bytes).ok().filter(|_| kind & 3 == REGISTER);
        script.push((kind, hello.map_or(bytes, known)));
    }
    join(&script.iter().map(|(kind, bytes)| (*kind, &bytes[..])).collect::<Vec<_>>())
}
