use std::{collections::BTreeMap, fs, sync::LazyLock, time::Duration};

use bytes::Bytes;
use evb_core::{
    event::Event,
    fragment::{Fragment, Timestamp},
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    rng::Rng,
    units::Rate,
};
use evb_file::{EventStream, FileIdentity, StreamEncoder, WriterOptions, files_at};

use super::{QUEUE, Tap, TapCounts, TapError, TapOptions, TapStream, Wanted, hash, seed};
use crate::{
    local::LocalSystem,
    sink::{FileSink, NullSink},
};

const RUN: RunId = RunId::new(0x5eed_cafe_0123_4567_89ab_cdef_0000_0001);
const EVERYTHING: Wanted = Wanted { sample: None, newest: false };

fn identity() -> FileIdentity {
    FileIdentity { run: RunNumber::new(1), run_id: RUN, ..FileIdentity::default() }
}

fn event(id: u64, size: usize) -> Event {
    let mut event = Event::empty(EventId::new(id), RunNumber::new(1), Epoch::default(), BuilderId::default());
    event.run_id = RUN;
    event.add(SourceId::new(1), Timestamp::new(id), vec![7; size].into());
    event
}

fn tap(options: TapOptions) -> Tap {
    let tap = Tap::new(options);
    tap.begin(&identity());
    tap
}

async fn rest(mut stream: TapStream) -> (Vec<u8>, TapCounts) {
    let mut bytes = Vec::new();
    while let Some(chunk) = tokio::time::timeout(Duration::from_secs(10), stream.next()).await.unwrap() {
        bytes.extend_from_slice(&chunk);
    }
    (bytes, stream.counts())
}

/// The stream to whose records the records of all streams are compared.
static SAME: LazyLock<StreamEncoder> = LazyLock::new(|| StreamEncoder::new(&identity()));

/// Returns the records of a stream by event, made to be those of one and the same stream.
fn records(stream: &[u8]) -> BTreeMap<u64, Vec<u8>> {
    let mut reader = EventStream::new(stream, "a stream").unwrap();
    let mut all = BTreeMap::new();
    while let Some(record) = reader.next().transpose().unwrap() {
        let mut bytes = reader.bytes().to_vec();
        SAME.adopt(&record, &mut bytes);
        all.insert(record.event.number(), bytes);
    }
    all
}

fn closes(counts: TapCounts) -> bool {
    counts.seen == counts.sent + counts.sampled_out + counts.dropped
}

/// The share of any set of events that is chosen without regard to the hash is that of all events:
/// of all, of each of 8 builders, of each tenth of the run, in each of 20 runs.
#[test]
fn the_sample_is_uniform() {
    const EVENTS: u64 = 100_000;
    for share in [0.01, 0.3] {
        let client = super::TapClient::new(1, share, false);
        let (mut far, mut sets) = (0, 0);
        let mut ids = Rng::new(7);
        for _ in 0..20 {
            let seed = seed(RunId::new(u128::from(ids.next_u64())));
            let taken: Vec<bool> = (0..EVENTS).map(|id| client.takes(hash(seed, EventId::new(id)))).collect();
            let all = deviation(&taken, share);
            assert!(all.abs() < 3.5, "{all} σ");
            let mut of_parts: Vec<f64> = taken.chunks(10_000).map(|part| deviation(part, share)).collect();
            of_parts.extend((0..8).map(|builder| {
                let own: Vec<bool> = taken.iter().skip(builder).step_by(8).copied().collect();
                deviation(&own, share)
            }));
            (far, sets) =
                (far + of_parts.iter().filter(|one| one.abs() > 3.0).count(), sets + of_parts.len());
        }
        // 0.27 % of the deviations of a normal distribution are larger than 3 σ.
        assert!(far <= 5, "{far} of {sets} parts are further than 3 σ");
    }
}

/// Returns the deviation of the number of events in the sample, in standard deviations.
fn deviation(taken: &[bool], share: f64) -> f64 {
    let expected = taken.len() as f64 * share;
    let found = taken.iter().filter(|taken| **taken).count() as f64;
    (found - expected) / (expected * (1.0 - share)).sqrt()
}

#[tokio::test]
async fn clients_with_a_share_get_the_same_events_at_every_builder_and_counts_close() {
    let (one, other) = (tap(TapOptions::default()), tap(TapOptions::default()));
    let subscribe =
        |tap: &Tap, sample| tap.subscribe(Wanted { sample: Some(sample), newest: false }).unwrap();
    let streams = [subscribe(&one, 0.1), subscribe(&other, 0.1), subscribe(&one, 0.5), subscribe(&one, 1.0)];
    for id in 1..=1000 {
        one.offer([&event(id, 10)].into_iter());
        other.offer([&event(id, 10)].into_iter());
    }
    one.end();
    other.end();
    let mut all = Vec::new();
    for stream in streams {
        let (bytes, counts) = rest(stream).await;
        let events: Vec<u64> = records(&bytes).into_keys().collect();
        assert!(closes(counts) && counts.seen == 1000 && counts.sent == events.len() as u64, "{counts:?}");
        all.push(events);
    }
    assert_eq!(all[0], all[1]);
    assert!((60..140).contains(&all[0].len()) && all[0].iter().all(|event| all[2].contains(event)));
    assert_eq!(all[3], (1..=1000).collect::<Vec<u64>>());
    let (clients, totals) = one.totals();
    assert_eq!((clients, totals.seen, closes(totals)), (0, 3000, true));
}

#[tokio::test]
async fn a_client_that_never_reads_costs_its_queue_and_delays_nobody() {
    let tap = tap(TapOptions::default());
    let (idle, mut reading) = (tap.subscribe(EVERYTHING).unwrap(), tap.subscribe(EVERYTHING).unwrap());
    assert!(reading.next().await.is_some_and(|header| header.starts_with(b"\x89EVB")));
    let mut size = 0;
    for id in 1..=300 {
        tap.offer([&event(id, 100_000)].into_iter());
        size = reading.next().await.unwrap().len() as u64;
    }
    let waiting = tap.clients()[0].waiting;
    assert_eq!(waiting, QUEUE.count() / size);
    assert_eq!(reading.counts(), TapCounts { seen: 300, sent: 300, ..TapCounts::default() });
    assert_eq!(idle.counts(), TapCounts { seen: 300, dropped: 300 - waiting, ..TapCounts::default() });
    drop(idle);
    let left = tap.clients()[1];
    assert_eq!((left.connected, left.counts.seen, left.counts.dropped), (false, 300, 300));
    // An event that is larger than the queue waits alone.
    tap.offer([&event(301, 9_000_000), &event(302, 10)].into_iter());
    assert!(reading.next().await.unwrap().len() > 9_000_000);
    assert_eq!((reading.counts().sent, reading.counts().dropped), (301, 1));
}

#[tokio::test]
async fn a_client_of_the_newest_event_never_lags_behind() {
    let tap = tap(TapOptions::default());
    let mut stream = tap.subscribe(Wanted { newest: true, ..EVERYTHING }).unwrap();
    let header = stream.next().await.unwrap();
    for last in [10, 20] {
        let events: Vec<Event> = (last - 9..=last).map(|id| event(id, 10)).collect();
        tap.offer(events.iter());
        let bytes = [header.clone(), stream.next().await.unwrap()].concat();
        assert_eq!(records(&bytes).into_keys().collect::<Vec<u64>>(), [last]);
    }
    assert_eq!(stream.counts(), TapCounts { seen: 20, sent: 2, dropped: 18, ..TapCounts::default() });
}

#[tokio::test]
async fn the_rate_limits_all_clients_together() {
    let tap =
        tap(TapOptions { max_rate: Some(Rate::from_bits_per_second(80_000_000)), ..TapOptions::default() });
    let streams = [tap.subscribe(EVERYTHING).unwrap(), tap.subscribe(EVERYTHING).unwrap()];
    // 1 MB at 10 MB/s takes 0.1 s.
    (1..=50).for_each(|id| tap.offer([&event(id, 10_000)].into_iter()));
    tap.end();
    let begin = std::time::Instant::now();
    let [one, other] = streams.map(|stream| tokio::spawn(rest(stream)));
    let sent = one.await.unwrap().1.sent + other.await.unwrap().1.sent;
    let took = begin.elapsed();
    assert_eq!(sent, 100);
    assert!(took > Duration::from_millis(85), "{took:?}");
}

#[tokio::test]
async fn a_stream_ends_with_its_run_and_the_next_one_begins_with_the_next_run() {
    let tap = tap(TapOptions { sample: 0.5, clients: 2, ..TapOptions::default() });
    assert_eq!(
        tap.subscribe(Wanted { sample: Some(0.6), newest: false }).err(),
        Some(TapError::Share { asked: 0.6, largest: 0.5 })
    );
    for wrong in [0.0, -1.0, f64::NAN, 2.0] {
        assert!(tap.subscribe(Wanted { sample: Some(wrong), newest: false }).is_err(), "{wrong}");
    }
    let first = tap.subscribe(EVERYTHING).unwrap();
    tap.end();
    let second = tap.subscribe(EVERYTHING).unwrap();
    assert_eq!(tap.subscribe(EVERYTHING).err(), Some(TapError::Full { clients: 2 }));
    let run_id = RunId::new(2);
    tap.begin(&FileIdentity { run: RunNumber::new(2), run_id, ..identity() });
    let mut later = event(1, 10);
    (later.run, later.run_id) = (RunNumber::new(2), run_id);
    tap.offer([&later].into_iter());
    tap.end();
    let ((first, of_first), (second, of_second)) = (rest(first).await, rest(second).await);
    let run = |bytes: &[u8]| EventStream::new(bytes, "a stream").unwrap().header().run.number();
    assert_eq!((run(&first), of_first.seen, run(&second), of_second.seen), (1, 0, 2, 1));
    assert!(tap.subscribe(EVERYTHING).is_ok());
}

#[tokio::test]
async fn the_counts_of_many_clients_that_have_left_are_kept_in_the_sum_alone() {
    let tap = tap(TapOptions::default());
    for id in 1..=70 {
        let stream = tap.subscribe(EVERYTHING).unwrap();
        tap.offer([&event(id, 10)].into_iter());
        drop(stream);
    }
    let (clients, sum) = (tap.clients(), tap.totals().1);
    assert_eq!((clients.len(), clients[0].id, clients[0].connected), (super::FORMER, 70, false));
    assert_eq!(sum, TapCounts { seen: 70, dropped: 70, ..TapCounts::default() });
}

/// A builder shows exactly what its file sink has written.
#[tokio::test(flavor = "multi_thread")]
async fn the_stream_has_the_records_of_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let (tap, path) = (Tap::default(), dir.path().to_owned());
    let stream = tap.subscribe(EVERYTHING).unwrap();
    let of_builder = tap.clone();
    let system = LocalSystem::new(2, 1).events(200).with_builders(|config| config.tap = Some(of_builder));
    let options = WriterOptions { rotate_at: evb_core::units::Bytes::kib(64), ..WriterOptions::default() };
    let run = system.start(|_| FileSink::new(&path, options)).await.unwrap();
    for id in (1..=200).map(EventId::new) {
        for source in run.sources() {
            let size = usize::try_from(id.number()).unwrap() * 7;
            source.push(Fragment::new(id, Timestamp::new(9), Bytes::from(vec![1; size]))).await.unwrap();
        }
    }
    assert_eq!(run.finished().await.unwrap().events.written, 200);
    let (bytes, counts) = rest(stream).await;
    let files = files_at(dir.path()).unwrap();
    assert!(files.len() > 3, "{} files", files.len());
    let of_files: BTreeMap<u64, Vec<u8>> =
        files.iter().flat_map(|path| records(&fs::read(path).unwrap())).collect();
    assert_eq!((of_files.len(), counts.sent), (200, 200));
    assert!(records(&bytes) == of_files, "the tap shows other bytes than those of the files");
}

/// Events that the filter rejects are shown to nobody.
#[tokio::test]
async fn rejected_events_are_not_shown() {
    let tap = Tap::default();
    let mut stream = tap.subscribe(EVERYTHING).unwrap();
    let filter = crate::filter::Prescale::new(2);
    let (stage, _) = crate::sink::stage::start(
        BuilderId::default(),
        NullSink,
        Box::new(filter),
        Duration::from_secs(1),
        Some(tap.clone()),
    )
    .unwrap();
    let mut stage = stage;
    stage.begin(crate::sink::RunFacts { run: RunNumber::new(1), run_id: RUN, ..Default::default() });
    std::future::poll_fn(|cx| stage.poll_begun(cx)).await.unwrap().0.unwrap();
    (1..=4).for_each(|id| stage.submit(event(id, 1)).unwrap());
    stage.close().await;
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk);
    }
    assert_eq!(records(&bytes).into_keys().collect::<Vec<u64>>(), [2, 4]);
}
