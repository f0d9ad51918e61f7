use evb_core::{
    alignment::ClockWrap,
    event::{Cause, Event, MissingSource},
    id::{BuilderId, RunId, RunNumber},
};
use evb_file::{EventFileWriter, FileIdentity, WriterOptions};

use super::*;

/// Records events in the files of one builder; a text of `None` means that source 2 missed the
/// event.
fn record(dir: &Path, builder: u16, epoch: u64, events: &[(u64, Option<&'static str>)]) {
    let (run, begun, builder) = (RunNumber::new(1), Epoch::new(1), BuilderId::new(builder));
    let sources = vec![SourceId::new(1), SourceId::new(2)];
    let identity = FileIdentity { run, epoch: begun, builder, sources, ..FileIdentity::default() };
    let mut writer = EventFileWriter::create(dir, identity, WriterOptions::default()).unwrap();
    for (id, text) in events {
        let mut event = Event::empty(EventId::new(*id), run, Epoch::new(epoch), builder);
        event.add(SourceId::new(1), Timestamp::new(0), "another source".into());
        match text {
            Some(text) => event.add(SourceId::new(2), Timestamp::new(*id), (*text).into()),
            None => event.missing.push(MissingSource::new(SourceId::new(2), Cause::Unknown)),
        }
        writer.append(&event).unwrap();
    }
    writer.close().unwrap();
}

fn played(replay: &mut Replay, event: u64) -> Option<String> {
    let fragment = replay.fragment(EventId::new(event))?;
    assert_eq!(fragment.checksum, evb_core::fragment::Checksum::of(&fragment.payload));
    Some(String::from_utf8(fragment.payload.to_vec()).unwrap())
}

#[test]
fn the_files_of_all_builders_are_played_in_event_order_over_and_over() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), 1, 1, &[(4, Some("fourth")), (1, Some("first"))]);
    record(dir.path(), 2, 1, &[(2, None), (7, Some("last"))]);
    let mut replay = Replay::recorded(dir.path(), SourceId::new(2), &Selection::default()).unwrap();
    assert_eq!((replay.len(), replay.largest()), (4, Bytes::new(6)));
    let told: Vec<_> = (1..=5).map(|event| played(&mut replay, event)).collect();
    let texts: Vec<_> = told.iter().map(Option::as_deref).collect();
    assert_eq!(texts, [Some("first"), None, Some("fourth"), Some("last"), Some("first")]);
    assert_eq!(replay.fragment(EventId::new(4)).unwrap().timestamp, Timestamp::new(7));
}

#[test]
fn of_several_copies_the_highest_epoch_is_played() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), 1, 2, &[(1, Some("again"))]);
    record(dir.path(), 2, 1, &[(1, Some("at first"))]);
    let mut replay = Replay::recorded(dir.path(), SourceId::new(2), &Selection::default()).unwrap();
    assert_eq!((replay.len(), played(&mut replay, 1).as_deref()), (1, Some("again")));
}

#[test]
fn files_that_cannot_be_played_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), 1, 1, &[(1, Some("first"))]);
    let error = Replay::recorded(dir.path(), SourceId::new(9), &Selection::default()).unwrap_err();
    assert!(matches!(error, ReplayError::NoFragments { .. }), "{error}");
    let missing = dir.path().join("nothing");
    let absent = Replay::recorded(&missing, SourceId::new(1), &Selection::default());
    assert!(matches!(absent, Err(ReplayError::Files(_))), "{absent:?}");
    // Another run under the same number.
    let (run, run_id, builder) = (RunNumber::new(1), RunId::new(7), BuilderId::new(3));
    let identity = FileIdentity { run, run_id, builder, ..FileIdentity::default() };
    let other = tempfile::tempdir().unwrap();
    EventFileWriter::create(other.path(), identity, WriterOptions::default()).unwrap().close().unwrap();
    let path = evb_file::files_at(other.path()).unwrap().remove(0);
    std::fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
    let error = Replay::recorded(dir.path(), SourceId::new(1), &Selection::default()).unwrap_err();
    assert!(error.to_string().contains("the files are of 2 runs"), "{error}");
}

#[cfg(feature = "km3net")]
#[test]
fn files_without_such_timeslices_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    record(dir.path(), 1, 1, &[(1, Some("first"))]);
    let missing = dir.path().join("nothing");
    assert!(matches!(Replay::km3net(&missing, 0), Err(ReplayError::Unreadable { .. })));
    let events = evb_file::files_at(dir.path()).unwrap();
    assert!(matches!(Replay::km3net(&events[0], 0), Err(ReplayError::Km3net { .. })));
    let km3net = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/km3net_l1_timeslices.dat");
    let error = Replay::km3net(&km3net, 15).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "has no module 15; its 15 modules are numbered from 0 to 14: choose one of them with `module`"
        ),
        "{error}"
    );
}

/// Returns a replay of events with these timestamps, of which `None` is missing.
fn replay_of(times: &[Option<u64>], wrap: ClockWrap) -> Replay {
    let recorded = |ticks: &Option<u64>| Some(recorded(Timestamp::new((*ticks)?), b"data"));
    let clock = DetectorClock::new("1 MHz".parse().unwrap(), wrap);
    Replay::of(times.iter().map(recorded).collect()).with_clock(&clock)
}

fn times(mut replay: Replay, events: u64) -> Vec<Option<u64>> {
    let time = |event| Some(replay.fragment(EventId::new(event))?.timestamp.ticks());
    (1..=events).map(time).collect()
}

#[test]
fn a_clock_runs_on_in_further_passes() {
    let (bits, some) = (ClockWrap::Bits(16), |times: &[u64]| times.iter().copied().map(Some).collect());
    let given: Vec<_> = some(&[10, 30, 70]);
    // The mean interval is 30 ticks, so a pass takes 90.
    assert_eq!(times(replay_of(&given, bits), 7), some(&[10, 30, 70, 100, 120, 160, 190]));
    let wrapped = times(replay_of(&[Some(65_500), Some(14)], bits), 4);
    assert_eq!(wrapped, some(&[65_500, 14, 64, 114]));
    let orbit = times(replay_of(&[Some(3560), Some(26)], ClockWrap::Ticks(3564)), 4);
    assert_eq!(orbit, some(&[3560, 26, 56, 86]));
    // Jitter lets a simultaneous event seem earlier.
    let burst = times(replay_of(&some(&[100, 99, 109]), bits), 4);
    assert_eq!(burst, some(&[100, 99, 109, 114]));
    assert_eq!(times(replay_of(&some(&[7]), bits), 2), some(&[7, 7]));
    let whole = times(replay_of(&some(&[0, 1 << 63]), ClockWrap::Bits(64)), 3);
    assert_eq!(whole, some(&[0, 1 << 63, 0]));
}

#[test]
fn missing_fragments_do_not_shorten_a_pass() {
    let given = [None, Some(20), None, Some(40), None];
    let replayed = times(replay_of(&given, ClockWrap::Bits(16)), 10);
    assert_eq!(replayed[5..], [None, Some(70), None, Some(90), None]);
}

#[test]
fn the_last_event_of_all_has_a_timestamp() {
    let mut replay = replay_of(&[Some(0), Some(u64::MAX)], ClockWrap::Bits(64));
    assert!(replay.fragment(EventId::new(u64::MAX)).is_some());
}
