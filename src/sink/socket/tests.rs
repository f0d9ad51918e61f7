mod consumer;

use std::{io::Write as _, net::TcpListener, thread, time::Duration};

use evb_core::{
    event::Event,
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    trigger::TriggerKind,
    units::{Bytes, Frequency},
};
use evb_file::{EventStream, WriterOptions, files_at};

use super::{SocketSink, connection::REPEATABLE};
use crate::{
    input::{FragmentSize, Generator},
    local::LocalSystem,
    sink::{FanOut, FileSink, HeldEvents, RunFacts, Sink as _, SinkError},
};
use consumer::{Consumer, taken_from};

fn event(id: u64, size: usize) -> Event {
    let mut event = Event::empty(EventId::new(id), RunNumber::new(1), Epoch::default(), BuilderId::default());
    event.add(SourceId::new(1), Timestamp::new(id), vec![7; size].into());
    event
}

/// Returns a sink that has begun, and waits for a short time only.
async fn begun(address: &str) -> SocketSink {
    let mut sink = SocketSink::tcp(address).with_timeout(Duration::from_millis(300));
    sink.begin(&RunFacts { run: RunNumber::new(1), ..RunFacts::default() }).await.unwrap();
    sink
}

/// Writes events as the stage does.
async fn offer(sink: &mut SocketSink, events: &[Event]) -> Result<(), SinkError> {
    for event in events {
        sink.write(event).await?;
    }
    sink.commit().await
}

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// Returns the cause of a passing error that holds exactly these events.
#[track_caller]
fn cause_holding(outcome: Result<(), SinkError>, held: &[u64]) -> String {
    let error = outcome.expect_err("an error");
    let held = held.iter().copied().map(EventId::new).collect();
    assert_eq!(error.held, HeldEvents::These(held), "{error}");
    error.cause
}

/// A system with one source, whose builder hands events over.
fn system(events: u64) -> LocalSystem {
    LocalSystem::new(1, 1).events(events).with_plan(|plan| plan.slots = 16)
}

fn readout(source: SourceId) -> Generator {
    Generator::new(source, FragmentSize::Fixed(Bytes::new(3000)), Bytes::kib(4), 1)
}

async fn survives(kills: u32) {
    let events = u64::from(kills) * 40;
    let (listener, address) = listener();
    let consumer = Consumer::start(listener, kills);
    let run = system(events).start_on_demand(readout, |_| SocketSink::tcp(&address)).await.unwrap();
    let report = run.finished().await.unwrap();
    assert_eq!((report.events.written, report.events.lost, report.exit_code), (events, 0, 0), "{report}");
    let taken = consumer.end();
    assert_eq!(taken.records.keys().copied().collect::<Vec<_>>(), (1..=events).collect::<Vec<_>>());
    assert_eq!(taken.kills, kills);
    assert!(taken.repeats >= u64::from(kills) / 2, "{} repeats", taken.repeats);
}

/// The consumer compares repeats byte for byte.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_is_killed_gets_every_event() {
    survives(20).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute"]
async fn a_consumer_that_is_killed_200_times_gets_every_event() {
    survives(200).await;
}

/// The files have each event once, however often the consumer is killed.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_beside_a_consumer_that_is_killed_has_each_event_once() {
    let dir = tempfile::tempdir().unwrap();
    let ((listener, address), kills, events) = (listener(), 10, 400);
    let consumer = Consumer::start(listener, kills);
    let sinks = |_| {
        let files = FileSink::new(dir.path(), WriterOptions::default());
        FanOut::default().required(SocketSink::tcp(&address)).required(files)
    };
    let run = system(events).start_on_demand(readout, sinks).await.unwrap();
    let report = run.finished().await.unwrap();
    assert_eq!((report.events.written, report.events.lost), (events, 0), "{report}");
    let taken = consumer.end();
    assert!(taken.records.keys().copied().eq(1..=events) && taken.repeats > 0);
    let mut in_files = Vec::new();
    for path in files_at(dir.path()).unwrap() {
        let bytes = std::fs::read(path).unwrap();
        let stored = EventStream::new(&bytes[..], "a file").unwrap();
        in_files.extend(stored.map(|record| record.unwrap().event.number()));
    }
    in_files.sort_unstable();
    assert!(in_files.iter().copied().eq(1..=events), "{} records", in_files.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_comes_late_costs_dead_time_with_a_name_and_no_event() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("consumer");
    let trigger = TriggerKind::Periodic { rate: Frequency::from_hertz(500.0).unwrap() };
    let system = system(300).trigger(trigger);
    let run = system.start_on_demand(readout, |_| SocketSink::unix(&path)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let consumer = thread::spawn(move || taken_from(&listener.accept().unwrap().0));
    let report = run.finished().await.unwrap();
    assert_eq!((report.events.written, report.events.lost), (300, 0), "{report}");
    assert_eq!(consumer.join().unwrap().len(), 300);
    let dead = report.dead_time.first().expect("dead time");
    assert!(dead.cause == "sink of builder 1" && dead.inhibited > 100, "{:?}", report.dead_time);
}

#[tokio::test]
async fn an_absent_consumer_is_named() {
    let (listener, address) = listener();
    drop(listener);
    let mut sink = begun(&address).await;
    let cause = cause_holding(offer(&mut sink, &[event(1, 10)]).await, &[]);
    assert_eq!(cause, format!("the consumer at {address} refuses the connection; start it"));
    let mut sink = SocketSink::unix("/nowhere/consumer");
    sink.begin(&RunFacts::default()).await.unwrap();
    let cause = cause_holding(sink.write(&event(1, 10)).await, &[]);
    assert_eq!(cause, "the consumer at /nowhere/consumer refuses the connection; start it");
}

/// Events that are small wait in the socket, large ones before it.
#[tokio::test]
async fn a_consumer_that_never_reads_or_never_answers_is_silent() {
    for size in [10, 32 << 20] {
        let (_listener, address) = listener();
        let mut sink = begun(&address).await;
        let outcome = tokio::time::timeout(Duration::from_secs(5), offer(&mut sink, &[event(4, size)])).await;
        let cause = cause_holding(outcome.unwrap(), &[4]);
        let words = format!("the consumer at {address} has taken and acknowledged nothing for 300 ms; look");
        assert!(cause.starts_with(&words), "{cause}");
    }
}

/// Lets a consumer answer with these bytes, and then close the connection or not.
async fn answered(answer: &'static [u8], closes: bool) -> Result<(), SinkError> {
    let (listener, address) = listener();
    let answering = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut events = EventStream::new(&stream, "a builder").unwrap();
        (0..3).for_each(|_| drop(events.next().unwrap().unwrap()));
        stream.write_all(answer).unwrap();
        (!closes).then_some(stream)
    });
    let events = [event(1, 10), event(2, 10), event(3, 10)];
    let outcome = offer(&mut begun(&address).await, &events).await;
    drop(answering.join().unwrap());
    outcome
}

#[tokio::test]
async fn wrong_answers_are_refused_and_hold_what_was_not_acknowledged() {
    let foreign = answered(&[2, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0], false).await;
    let cause = cause_holding(foreign, &[1, 3]);
    assert!(cause.contains("answers 0x9, which is not the number of an event"), "{cause}");
    let big_endian = answered(&[0, 0, 0, 0, 0, 0, 0, 1], false).await;
    let cause = cause_holding(big_endian, &[1, 2, 3]);
    assert!(cause.contains("0x100000000000000, ") && cause.contains("little endian"), "{cause}");
    let half = answered(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0], true).await;
    let cause = cause_holding(half, &[2, 3]);
    assert!(cause.contains("closed the connection") || cause.contains("is cut off"), "{cause}");
    let half = answered(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0], false).await;
    let cause = cause_holding(half, &[2, 3]);
    assert!(cause.contains("acknowledged nothing for 300 ms"), "{cause}");
}

#[tokio::test]
async fn answers_come_in_any_order_and_may_be_repeated() {
    let out_of_order = [3u64, 3, 1, 3, 2, 1].map(u64::to_le_bytes).concat().leak();
    assert_eq!(answered(out_of_order, true).await, Ok(()));
}

/// A consumer that repeats very old answers is at fault; the memory of answers is limited.
#[tokio::test]
async fn the_memory_of_answers_is_limited() {
    let (listener, address) = listener();
    let count = REPEATABLE as u64 + 2;
    let answering = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let answer = |id: u64| (&stream).write_all(&id.to_le_bytes()).unwrap();
        let mut events = EventStream::new(&stream, "a builder").unwrap();
        for id in 1..count {
            events.next().unwrap().unwrap();
            answer(id);
        }
        answer(2);
        answer(1);
        drop(events);
        stream
    });
    let events = (1..=count).map(|id| event(id, 1)).collect::<Vec<_>>();
    let mut sink = begun(&address).await;
    let cause = cause_holding(offer(&mut sink, &events).await, &[count]);
    assert!(cause.contains("answers 0x1,"), "{cause}");
    drop(answering.join().unwrap());
}

/// Also if it dies when it has acknowledged the last event.
#[tokio::test]
async fn a_consumer_learns_that_it_has_the_whole_run() {
    let (listener, address) = listener();
    let taking = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut events = EventStream::new(&stream, "a builder").unwrap();
        events.next().unwrap().unwrap();
        (&stream).write_all(&1u64.to_le_bytes()).unwrap();
        drop(stream);
        taken_from(&listener.accept().unwrap().0)
    });
    let mut sink = begun(&address).await;
    offer(&mut sink, &[event(1, 10)]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    sink.close().await.unwrap();
    assert!(taking.join().unwrap().is_empty());
}

#[tokio::test]
async fn a_run_without_events_connects_to_nobody() {
    let (listener, address) = listener();
    listener.set_nonblocking(true).unwrap();
    let mut sink = begun(&address).await;
    sink.close().await.unwrap();
    assert!(listener.accept().is_err());
}
