use std::os::unix::net::UnixListener as StdUnixListener;

use evb_core::{
    fragment::{Fragment, Timestamp},
    id::{EventId, RunId, RunNumber},
    source::FRONT_END_READ,
};
use evb_shaper::role::RunStage;
use proptest::prelude::*;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt, duplex},
    sync::mpsc,
    task::JoinHandle,
    time::timeout,
};

use super::{assembly::PATIENCE, fragments::HEAD, *};
use crate::{
    input::taker::tests::{Channel, Heap},
    source::ToldRun,
};

const LIMIT: Bytes = Bytes::new(1000);

fn record(event: u64, timestamp: u64, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    [&length.to_le_bytes()[..], &event.to_le_bytes(), &timestamp.to_le_bytes(), payload].concat()
}

async fn received(bytes: &[u8]) -> (Vec<Fragment>, Result<u64, FrontEndError>) {
    let heap = Heap::default();
    let result = receive(bytes, LIMIT, &heap, &FrontEnds::new(BeforeStart::Keep, 0)).await;
    (heap.taken(), result)
}

/// Serves the front ends of a listener until the task is aborted.
fn serve(listener: FrontEndListener, taker: Channel) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut connections = Connections::new(&listener);
        listener.serve_to(taker, &mut connections).await;
    })
}

/// Returns the preamble by which a front end states the version of its protocol and its name.
fn preamble(version: u8, name: &[u8]) -> Vec<u8> {
    let mut head = vec![0xff; 4];
    head.extend([version, name.len() as u8]);
    head.resize(HEAD, 0);
    [&head, name].concat()
}

/// Returns the statement that the following fragments are of this run; [`RunId::UNKNOWN`]: that
/// their run is not known.
fn states(run: RunId) -> Vec<u8> {
    [&[0xff; 4][..], &run.to_bytes()].concat()
}

#[tokio::test]
async fn fragments_are_taken_to_the_end_of_the_stream() {
    let bytes = [record(1, 10, b"one"), record(3, 30, b""), record(2, 20, &[7; LIMIT.as_usize()])].concat();
    let (fragments, result) = received(&bytes).await;
    assert_eq!(result.unwrap(), 3);
    let expected = [(1, 10, &b"one"[..]), (3, 30, b""), (2, 20, &[7; 1000])].map(|(event, time, payload)| {
        Fragment::new(EventId::new(event), Timestamp::new(time), payload.to_vec())
    });
    assert_eq!(fragments, expected);
}

#[tokio::test]
async fn a_stream_out_of_step_is_refused_with_a_reason() {
    let oversize = record(1, 0, &[0; 1001]);
    let http = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
    for (bytes, reason) in [
        (oversize, "1001 B, more than max_fragment (1000 B): raise max_fragment of this source"),
        (http, "542393671 B, more than max_fragment (1000 B), so it is no front end"),
        (record(1, 0, b"cut")[..22].to_vec(), "in the middle of a fragment"),
        (record(1, 0, b"cut")[..20].to_vec(), "in the middle of a fragment"),
        (record(1, 0, b"cut")[..5].to_vec(), "in the middle of a fragment"),
    ] {
        let (fragments, result) = received(&bytes).await;
        let told = result.unwrap_err().to_string();
        assert!(told.contains(reason), "{told}");
        assert!(fragments.is_empty());
    }
}

/// Many front ends send all but the last byte of a large fragment. Only a few of these are read;
/// when another front end needs the memory, those that have stopped give way.
#[tokio::test]
async fn unfinished_fragments_take_no_more_than_their_memory() {
    let large = Bytes::mib(1);
    let front_ends = FrontEnds::new(BeforeStart::Keep, 2);
    let assembly = Arc::new(Assembly::new(large, 2));
    let (sender, mut taken) = mpsc::channel(64);
    let mut open = Vec::new();
    let mut reading = JoinSet::new();
    let bytes = record(1, 0, &vec![7; 1 << 20]);
    let connect = |reading: &mut JoinSet<_>| {
        let (front_end, stream) = duplex(1024);
        let mut fragments = Fragments::new(stream, large, assembly.clone(), &front_ends);
        let taker = Channel(sender.clone());
        reading.spawn(async move {
            fragments.open().await?;
            fragments.pass_on(&taker).await
        });
        front_end
    };
    let mut writing = JoinSet::new();
    for _ in 0..20 {
        let (mut front_end, bytes) = (connect(&mut reading), bytes.clone());
        writing
            .spawn(async move { front_end.write_all(&bytes[..bytes.len() - 1]).await.map(|()| front_end) });
    }
    while let Ok(Some(written)) = timeout(PATIENCE / 2, writing.join_next()).await {
        open.push(written.unwrap().unwrap());
    }
    assert_eq!(open.len(), 4, "only four fragments are read");
    let mut whole = connect(&mut reading);
    let sent = whole.write_all(&bytes);
    timeout(Duration::from_secs(60), sent).await.expect("the others give way").unwrap();
    assert_eq!(taken.recv().await.unwrap().payload.len(), 1 << 20);
    let mut stopped = 0;
    while let Some(Ok(ended)) = reading.try_join_next() {
        assert!(matches!(ended, Err(FrontEndError::Stopped(_))), "{ended:?}");
        stopped += 1;
    }
    assert!(stopped >= 4, "{stopped}");
}

/// A front end may take its time while there is memory for the others.
#[tokio::test]
async fn a_slow_front_end_is_waited_for() {
    let (mut front_end, stream) = duplex(1024);
    let (sender, mut taken) = mpsc::channel(1);
    let reading = tokio::spawn(async move {
        receive(stream, LIMIT, &Channel(sender), &FrontEnds::new(BeforeStart::Keep, 1)).await
    });
    for part in record(1, 0, &[1; 500]).chunks(100) {
        front_end.write_all(part).await.unwrap();
        tokio::time::sleep(PATIENCE * 5 / 4).await;
    }
    assert_eq!(taken.recv().await.unwrap().payload.len(), 500);
    drop(front_end);
    assert_eq!(reading.await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn while_the_source_is_full_nothing_is_read() {
    let (mut front_end, stream) = duplex(1000);
    let (sender, mut fragments) = mpsc::channel(1);
    let reading = tokio::spawn(async move {
        receive(stream, LIMIT, &Channel(sender), &FrontEnds::new(BeforeStart::Keep, 0)).await
    });
    let record = record(1, 0, &[1; 1000]);
    let mut sent = 0;
    // If the reader did not stop when the channel is full, all 10 000 writes would succeed.
    while sent < 10_000
        && timeout(Duration::from_millis(100), front_end.write_all(&record))
            .await
            .is_ok_and(|done| done.is_ok())
    {
        sent += 1;
    }
    let bound = (FRONT_END_READ + 3 * 1000) / record.len() + 3;
    assert!(sent <= bound, "{sent} of {bound} fragments went through");
    let drained = tokio::spawn(async move {
        let mut count = 0;
        while fragments.recv().await.is_some() {
            count += 1;
        }
        count
    });
    drop(front_end);
    // The last fragment was cut off when its write timed out.
    assert!(matches!(reading.await.unwrap(), Err(FrontEndError::CutShort)));
    assert_eq!(drained.await.unwrap(), sent);
}

#[tokio::test]
async fn a_bad_front_end_is_closed_and_the_others_go_on() {
    let listener = FrontEndListener::tcp(&["127.0.0.1:0".parse().unwrap()], LIMIT).await.unwrap();
    let address = listener.address().unwrap();
    let (sender, mut fragments) = mpsc::channel(16);
    let serving = serve(listener, Channel(sender));
    let mut good = TcpStream::connect(address).await.unwrap();
    good.write_all(&record(1, 0, b"before")).await.unwrap();
    assert_eq!(fragments.recv().await.unwrap().payload, "before");
    for bytes in [b"\xff\xff\xff\xff and so on, for twenty bytes".to_vec(), record(0, 0, b"event zero")] {
        let mut bad = TcpStream::connect(address).await.unwrap();
        bad.write_all(&bytes).await.unwrap();
        let closed = timeout(Duration::from_secs(5), bad.read(&mut [0])).await.unwrap();
        assert!(matches!(closed, Ok(0) | Err(_)), "nothing is answered");
    }
    good.write_all(&record(2, 0, b"after")).await.unwrap();
    assert_eq!(fragments.recv().await.unwrap().payload, "after");
    serving.abort();
}

#[tokio::test]
async fn a_unix_socket_is_taken_over_from_the_dead_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sockets/source.sock");
    drop(FrontEndListener::unix(&path, LIMIT).unwrap());
    assert!(!path.exists());
    drop(StdUnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let listener = FrontEndListener::unix(&path, LIMIT).unwrap();
    assert_eq!(FrontEndListener::unix(&path, LIMIT).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    let (sender, mut fragments) = mpsc::channel(16);
    let serving = serve(listener, Channel(sender));
    let mut front_end = UnixStream::connect(&path).await.unwrap();
    front_end.write_all(&record(1, 2, b"over unix")).await.unwrap();
    assert_eq!(fragments.recv().await.unwrap().payload, "over unix");
    serving.abort();
    let _ = serving.await;
    assert!(!path.exists());
    fs::write(&path, "precious").unwrap();
    assert!(FrontEndListener::unix(&path, LIMIT).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn a_preamble_that_evb_does_not_know_is_refused_with_a_reason() {
    let cut = preamble(2, b"crate 1")[..25].to_vec();
    let run = states(RunId::new(1));
    for (bytes, reason) in [
        (preamble(3, b""), "version 3"),
        (preamble(2, &[b'x'; 65]), "at most 64 bytes"),
        (preamble(2, b"\xff"), "printable"),
        (preamble(2, b"a\nb"), "printable"),
        (cut, "in the middle of a fragment"),
        ([record(1, 0, b"one"), run].concat(), "more than max_fragment"),
    ] {
        let told = received(&bytes).await.1.unwrap_err().to_string();
        assert!(told.contains(reason), "{told}");
    }
}

/// Returns the records of fragments of these events.
fn records(events: &[u64]) -> Vec<u8> {
    events.iter().flat_map(|event| record(*event, 0, b"x")).collect()
}

/// A front end of protocol 2 may state the run of the fragments that follow. Fragments of another
/// run are discarded; those of the present run, and those without a stated run, are taken.
#[tokio::test]
async fn fragments_that_are_stated_to_be_of_another_run_are_discarded() {
    let (old, new) = (RunId::new(1), RunId::new(2));
    let front_ends = FrontEnds::new(BeforeStart::Keep, 1);
    let told = ToldRun { id: new, number: RunNumber::new(8), stage: RunStage::Running, ..ToldRun::default() };
    front_ends.note_run(told);
    let bytes = [
        preamble(2, "crate \u{1f980}".as_bytes()),
        records(&[1]),
        states(old),
        records(&[2, 3]),
        states(new),
        records(&[4, 5, 6]),
        states(RunId::UNKNOWN),
        records(&[7]),
    ];
    let heap = Heap::default();
    assert_eq!(receive(&bytes.concat()[..], LIMIT, &heap, &front_ends).await.unwrap(), 7);
    let taken: Vec<u64> = heap.taken().iter().map(|fragment| fragment.event.number()).collect();
    assert_eq!(taken, [1, 4, 5, 6, 7]);
    let counts = front_ends.counts();
    assert_eq!((counts.of_other_runs, counts.run_not_stated, counts.protocol), (2, 2, 2));
}

/// Before the run has begun, no fragment can be of it. Fragments without a stated run are kept for
/// it ([`BeforeStart::Keep`]), also those of protocol 1, which cannot state a run.
#[tokio::test]
async fn before_a_run_has_begun_fragments_that_are_stated_to_be_of_it_are_discarded() {
    let id = RunId::new(2);
    let front_ends = FrontEnds::new(BeforeStart::Keep, 1);
    front_ends.note_run(ToldRun { id, stage: RunStage::Waiting, ..ToldRun::default() });
    let heap = Heap::default();
    let bytes = [preamble(2, b""), states(id), records(&[8])].concat();
    receive(&bytes[..], LIMIT, &heap, &front_ends).await.unwrap();
    assert!(heap.taken().is_empty());
    receive(&records(&[9])[..], LIMIT, &heap, &front_ends).await.unwrap();
    let taken: Vec<u64> = heap.taken().iter().map(|fragment| fragment.event.number()).collect();
    assert_eq!(taken, [9]);
    let counts = front_ends.counts();
    assert_eq!((counts.of_other_runs, counts.run_not_stated, counts.protocol), (1, 1, 1));
}

#[tokio::test]
async fn one_front_end_more_than_there_may_be_is_closed() {
    let Some(()) = evb_needs::granted(evb_needs::open_files(1000)) else { return };
    let listener = FrontEndListener::tcp(&["127.0.0.1:0".parse().unwrap()], LIMIT).await.unwrap();
    let address = listener.address().unwrap();
    let (sender, mut fragments) = mpsc::channel(16);
    let serving = serve(listener, Channel(sender));
    let mut connected = Vec::new();
    for event in 1..=u64::from(MAX_FRONT_ENDS) {
        let mut front_end = TcpStream::connect(address).await.unwrap();
        front_end.write_all(&record(event, 0, b"data")).await.unwrap();
        assert_eq!(fragments.recv().await.unwrap().event.number(), event);
        connected.push(front_end);
    }
    let mut one_more = TcpStream::connect(address).await.unwrap();
    let closed = timeout(Duration::from_secs(5), one_more.read(&mut [0])).await.unwrap();
    assert!(matches!(closed, Ok(0) | Err(_)), "nothing is answered");
    connected[0].write_all(&record(1000, 0, b"data")).await.unwrap();
    assert_eq!(fragments.recv().await.unwrap().event.number(), 1000, "the others go on");
    serving.abort();
}

#[tokio::test]
async fn a_front_end_of_protocol_2_learns_how_many_fragments_were_accepted() {
    let front_ends = FrontEnds::new(BeforeStart::Keep, 1);
    let listener = FrontEndListener::tcp(&["127.0.0.1:0".parse().unwrap()], LIMIT).await.unwrap();
    let listener = listener.with_front_ends(front_ends.clone());
    let address = listener.address().unwrap();
    let (sender, mut fragments) = mpsc::channel(16);
    let serving = serve(listener, Channel(sender));
    let mut front_end = TcpStream::connect(address).await.unwrap();
    front_end.write_all(&preamble(2, b"crate 1")).await.unwrap();
    let id = RunId::new(77);
    front_ends.note_run(ToldRun { id, stage: RunStage::Running, ..ToldRun::default() });
    let mut message = [0; 32];
    front_end.read_exact(&mut message).await.unwrap();
    assert_eq!((message[0], &message[8..24]), (1, &id.to_bytes()[..]));
    let bytes = [states(id), record(1, 0, b"one"), record(2, 0, b"two"), states(RunId::new(5))].concat();
    front_end
        .write_all(&[bytes, record(3, 0, b"old"), record(4, 0, b"cut")[..22].to_vec()].concat())
        .await
        .unwrap();
    front_end.shutdown().await.unwrap();
    let mut rest = Vec::new();
    front_end.read_to_end(&mut rest).await.unwrap();
    assert_eq!((rest[rest.len() - 32], rest[rest.len() - 8]), (3, 2), "two fragments were accepted");
    assert_eq!(fragments.recv().await.unwrap().payload, "one");
    assert_eq!(front_ends.counts().malformed, 1);
    serving.abort();
}

#[tokio::test]
async fn a_fragment_that_the_source_refuses_is_counted() {
    let front_ends = FrontEnds::new(BeforeStart::Keep, 1);
    let listener = FrontEndListener::tcp(&["127.0.0.1:0".parse().unwrap()], LIMIT).await.unwrap();
    let listener = listener.with_front_ends(front_ends.clone());
    let address = listener.address().unwrap();
    let (sender, _fragments) = mpsc::channel(16);
    let serving = serve(listener, Channel(sender));
    let mut front_end = TcpStream::connect(address).await.unwrap();
    front_end.write_all(&record(0, 0, b"data")).await.unwrap();
    let closed = timeout(Duration::from_secs(5), front_end.read(&mut [0])).await.unwrap();
    assert!(matches!(closed, Ok(0) | Err(_)), "nothing is answered");
    assert_eq!(front_ends.counts().malformed, 1);
    serving.abort();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn any_bytes_end_in_fragments_within_the_limit_or_an_error(
        lengths in prop::collection::vec(0usize..1200, 0..4), noise: Vec<u8>, cut: prop::sample::Index,
    ) {
        let mut bytes: Vec<u8> = lengths.iter().flat_map(|length| record(1, 0, &vec![0; *length])).collect();
        bytes.truncate(cut.index(bytes.len() + 1));
        bytes.extend_from_slice(&noise);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (fragments, result) = runtime.block_on(received(&bytes));
        prop_assert!(fragments.iter().all(|fragment| fragment.size() <= LIMIT));
        if let Ok(count) = result {
            let taken: usize = fragments.iter().map(|fragment| HEAD + fragment.payload.len()).sum();
            prop_assert_eq!((count as usize, taken), (fragments.len(), bytes.len()));
        }
    }
}
