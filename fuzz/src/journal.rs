//! The supervisor's journal: arbitrary bytes as its file, and arbitrary entries as the past of a
//! run that is continued.

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
        journal::{Change, Entry, Finding, Lost, Membership, Reassigned, Resumed, RosterChange, What},
    },
};

use crate::{
    script::{Piece, join, pieces},
    supervisor::{REGISTER, SAY, drive, plan, run},
};

/// Length of the file's header, and of an entry's length and checksum.
const HEADER: usize = 8;
const FRAME: usize = 8;

/// Bit in the kind of a piece that is an entry; the others are what happens to the supervisor that
/// continues the run.
const ENTRY: u8 = 8;
/// Bit in the kind of the first piece: the run's own clock triggers.
const CLOCK: u8 = 1 << 7;

/// The current time: later than all seeds, and within the same boot.
const NOW: Instant = Instant::from_nanos(1 << 40);

/// Reads the bytes as a file, as they are and with correct checksums, and as a script: entries, and
/// what happens after them.
///
/// # Panics
/// Panics if two readings of the file differ, if a snapshot of the recovered run is another run, or
/// as [`drive`] does.
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

/// Checks that a snapshot of the recovered run is the same run.
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
                // The contents are compared as text, because not every number equals itself.
                let cut = read_journal(&bytes[..whole]);
                assert_eq!(
                    format!("{cut:?}"),
                    format!("{:?}", JournalContent::Whole(entries.clone(), whole))
                );
            }
            // An entry of which only fields of later versions were read is written as nothing.
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

/// Corrects the checksum of every entry that fits.
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

/// Returns the entries that a supervisor writes at the beginning of a run, and their snapshot.
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

/// Returns entries of an eventful run: builder 2 dies and others get its events, an operator steers
/// the run, a builder leaves and returns, and the run ends.
fn eventful() -> impl Iterator<Item = Entry> {
    let finding = |failure, remark| Finding { problem: "the disk".to_owned(), failure, remark };
    let whats = [
        What::Over(2),
        What::Epoch(200),
        What::Reassigned(Reassigned { builder: 1, events: vec![2] }),
        What::Membership(Membership { builder: 9, change: Change::Added }),
        What::Membership(Membership { builder: 9, change: Change::Gone }),
        What::Roster(RosterChange { version: 9, up: vec![1], awaited: vec![0] }),
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

/// Returns journals as scripts and as files: of runs at several points, entry by entry and as a
/// snapshot, each followed by a run.
pub fn seeds() -> Vec<Vec<u8>> {
    let rate = Frequency::from_hertz(100.0).expect("that is a rate");
    let mut seeds = Vec::new();
    for (trigger, clock) in [(TriggerKind::External, 0), (TriggerKind::Periodic { rate }, CLOCK)] {
        for steps in [0, 4, 6, 7, 9, 11, usize::MAX] {
            for journal in written(trigger, steps) {
                let eventful: Vec<Entry> = journal.iter().cloned().chain(eventful()).collect();
                seeds.extend([script(&journal, clock), script(&eventful, clock)]);
                // `check` adds the header.
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
        // All peers were there before.
        let known = |hello| Hello { incarnation: 1, ..hello }.encode_to_vec();
        let hello = Hello::decode(&bytes).ok().filter(|_| kind & 3 == REGISTER);
        script.push((kind, hello.map_or(bytes, known)));
    }
    join(&script.iter().map(|(kind, bytes)| (*kind, &bytes[..])).collect::<Vec<_>>())
}
