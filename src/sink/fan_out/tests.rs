use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use evb_core::{
    event::Event,
    fragment::Timestamp,
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    ledger::OwingChange,
    units::Bytes,
};

use super::{
    FanOut,
    aside::{WAITING, WAITING_BYTES},
};
use crate::sink::{RunFacts, Sink, SinkError, SinkSpace};

/// A sink with a script, and what it was told.
#[derive(Clone, Default)]
struct Scripted(Arc<Script>);

#[derive(Default)]
struct Script {
    /// Errors of the next calls of `write`, the last one first.
    writes: Mutex<Vec<Option<SinkError>>>,
    begin: Mutex<Option<SinkError>>,
    commit: Mutex<Option<SinkError>>,
    staged: Mutex<Vec<u64>>,
    taken: Mutex<Vec<u64>>,
    calls: Mutex<Vec<String>>,
    number: Mutex<Option<RunNumber>>,
    free: Mutex<Option<Bytes>>,
    hangs: AtomicBool,
}

impl Scripted {
    fn taken(&self) -> Vec<u64> {
        self.0.taken.lock().unwrap().clone()
    }

    fn note(&self, call: impl Into<String>) {
        self.0.calls.lock().unwrap().push(call.into());
    }

    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.calls.lock().unwrap())
    }
}

impl Sink for Scripted {
    async fn prepare(&mut self) -> Result<Option<RunNumber>, SinkError> {
        Ok(*self.0.number.lock().unwrap())
    }

    async fn begin(&mut self, run: &RunFacts) -> Result<(), SinkError> {
        let error = self.0.begin.lock().unwrap().clone();
        self.note(format!("begin {}{}", run.run, if error.is_some() { " in vain" } else { "" }));
        error.map_or(Ok(()), Err)
    }

    async fn write(&mut self, event: &Event) -> Result<(), SinkError> {
        while self.0.hangs.load(Relaxed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if let Some(Some(error)) = self.0.writes.lock().unwrap().pop() {
            if error.is_passing() {
                let staged = std::mem::take(&mut *self.0.staged.lock().unwrap());
                let kept = staged.into_iter().filter(|id| !error.holds(EventId::new(*id)));
                self.0.taken.lock().unwrap().extend(kept);
            }
            return Err(error);
        }
        self.0.staged.lock().unwrap().push(event.id.number());
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), SinkError> {
        let staged = std::mem::take(&mut *self.0.staged.lock().unwrap());
        let error = self.0.commit.lock().unwrap().clone();
        let kept = staged
            .into_iter()
            .filter(|id| error.as_ref().is_none_or(|error| !error.holds(EventId::new(*id))));
        self.0.taken.lock().unwrap().extend(kept);
        error.map_or(Ok(()), Err)
    }

    fn note_changes(&mut self, changes: &[OwingChange]) {
        self.note(format!("{} changes", changes.len()));
    }

    fn space(&self) -> Option<SinkSpace> {
        (*self.0.free.lock().unwrap()).map(|free| SinkSpace { free, size: Bytes::mib(100) })
    }

    async fn close(&mut self) -> Result<(), SinkError> {
        self.note("close");
        Ok(())
    }
}

fn event(id: u64, size: usize) -> Event {
    let mut event = Event::empty(EventId::new(id), RunNumber::new(1), Epoch::default(), BuilderId::default());
    event.add(SourceId::new(1), Timestamp::new(id), vec![7; size].into());
    event
}

fn facts(run: u32) -> RunFacts {
    RunFacts { run: RunNumber::new(run), ..RunFacts::default() }
}

/// Writes events as the stage does, and returns those that have to be offered again.
async fn offer(sinks: &mut FanOut, events: &[u64]) -> Result<(), (Vec<u64>, String)> {
    let written = async {
        for id in events {
            sinks.write(&event(*id, 10)).await?;
        }
        sinks.commit().await
    };
    written.await.map_err(|error| {
        let held = events.iter().copied().filter(|id| error.holds(EventId::new(*id))).collect();
        (held, error.cause)
    })
}

fn some(ids: &[u64]) -> Vec<EventId> {
    ids.iter().copied().map(EventId::new).collect()
}

#[tokio::test]
async fn events_are_offered_again_only_to_sinks_that_did_not_accept_them() {
    let (first, second) = (Scripted::default(), Scripted::default());
    let mut sinks = FanOut::default().required(first.clone()).required(second.clone());
    sinks.begin(&facts(1)).await.unwrap();
    // The first sink accepts 1 and 3, the second one fails at its third event and keeps the first.
    *first.0.commit.lock().unwrap() = Some(SinkError::passing_but_for("full; make room", some(&[2])));
    let away = SinkError::passing_but_for("away; start it", some(&[2]));
    *second.0.writes.lock().unwrap() = vec![Some(away), None, None];
    let cause = "full, and away; make room, and start it".to_owned();
    assert_eq!(offer(&mut sinks, &[1, 2, 3]).await, Err((vec![2, 3], cause)));
    assert_eq!((first.taken(), second.taken()), (vec![1, 3], vec![1]));
    *first.0.commit.lock().unwrap() = None;
    *second.0.commit.lock().unwrap() = Some(SinkError::passing("away; start it"));
    assert_eq!(offer(&mut sinks, &[2, 3]).await, Err((vec![2, 3], "away; start it".to_owned())));
    assert_eq!((first.taken(), second.taken()), (vec![1, 3, 2], vec![1]));
    *second.0.commit.lock().unwrap() = None;
    assert_eq!(offer(&mut sinks, &[2, 3]).await, Ok(()));
    assert_eq!(offer(&mut sinks, &[4]).await, Ok(()));
    assert_eq!((first.taken(), second.taken()), (vec![1, 3, 2, 4], vec![1, 2, 3, 4]));
}

#[tokio::test]
async fn an_event_that_one_sink_loses_reaches_the_others() {
    let (first, second) = (Scripted::default(), Scripted::default());
    let mut sinks = FanOut::default().required(first.clone()).required(second.clone());
    sinks.begin(&facts(1)).await.unwrap();
    *first.0.writes.lock().unwrap() = vec![Some(SinkError::lost("too large"))];
    let lost = sinks.write(&event(1, 10)).await.unwrap_err();
    assert_eq!(lost, SinkError::lost("too large"));
    assert_eq!(offer(&mut sinks, &[2]).await, Ok(()));
    assert_eq!((first.taken(), second.taken()), (vec![2], vec![1, 2]));
    *second.0.commit.lock().unwrap() = Some(SinkError::lost("broken"));
    assert_eq!(offer(&mut sinks, &[3]).await, Err((vec![], "broken".to_owned())));
}

#[tokio::test]
async fn every_sink_gets_the_facts_of_the_run() {
    let all: [Scripted; 3] = Default::default();
    let [first, second, aside] = &all;
    for (sink, number) in all.iter().zip([9, 4, 6]) {
        *sink.0.number.lock().unwrap() = Some(RunNumber::new(number));
        *sink.0.free.lock().unwrap() = Some(Bytes::mib(number.into()));
    }
    let mut sinks =
        FanOut::default().required(first.clone()).required(second.clone()).optional(aside.clone());
    assert_eq!(sinks.prepare().await, Ok(Some(RunNumber::new(9))));
    assert_eq!(sinks.space().map(|space| space.free), Some(Bytes::mib(4)));
    sinks.note_changes(&[]);
    *second.0.begin.lock().unwrap() = Some(SinkError::passing("full"));
    assert_eq!(sinks.begin(&facts(10)).await, Err(SinkError::passing("full")));
    // The run gets another number before the second sink could begin it.
    assert_eq!(sinks.begin(&facts(11)).await, Err(SinkError::passing("full")));
    *second.0.begin.lock().unwrap() = None;
    assert_eq!(sinks.begin(&facts(11)).await, Ok(()));
    assert_eq!(offer(&mut sinks, &[1]).await, Ok(()));
    sinks.close().await.unwrap();
    let expected = ["0 changes", "begin 10", "close", "begin 11", "close"];
    assert_eq!(first.calls(), expected);
    assert_eq!(second.calls(), ["0 changes", "begin 10 in vain", "begin 11 in vain", "begin 11", "close"]);
    assert_eq!(
        (aside.calls(), aside.taken()),
        (vec!["0 changes".into(), "begin 11".into(), "close".into()], vec![1])
    );
}

#[tokio::test]
async fn a_sink_that_never_can_begin_lets_the_others_leave_the_run() {
    let (first, second) = (Scripted::default(), Scripted::default());
    let mut sinks = FanOut::default().required(first.clone()).required(second.clone());
    *second.0.begin.lock().unwrap() = Some(SinkError::lost("no such directory"));
    assert_eq!(sinks.begin(&facts(1)).await, Err(SinkError::lost("no such directory")));
    assert_eq!(first.calls(), ["begin 1", "close"]);
}

async fn optional(sink: &Scripted) -> FanOut {
    let mut sinks = FanOut::default().optional(sink.clone());
    sinks.prepare().await.unwrap();
    sinks.begin(&facts(1)).await.unwrap();
    sinks
}

#[tokio::test]
async fn an_optional_sink_never_holds_an_event_and_its_queue_has_a_limit() {
    let sink = Scripted::default();
    let mut sinks = optional(&sink).await;
    sink.0.hangs.store(true, Relaxed);
    let events = (1..=3 * WAITING as u64).collect::<Vec<_>>();
    let outcome = tokio::time::timeout(Duration::from_secs(5), offer(&mut sinks, &events)).await;
    assert_eq!(outcome.expect("no wait"), Ok(()));
    sink.0.hangs.store(false, Relaxed);
    let missed = sinks.optional[0].close().await.unwrap();
    let taken = sink.taken().len();
    assert_eq!(missed, (events.len() - taken) as u64);
    // One batch may be at the sink while another one waits, with the beginning of the run.
    assert!((WAITING - 1..=2 * WAITING).contains(&taken), "{taken}");

    sink.0.hangs.store(true, Relaxed);
    sinks.begin(&facts(2)).await.unwrap();
    let large = WAITING_BYTES.as_usize() / 4 + 1;
    for id in 1..=20 {
        sinks.write(&event(10_000 + id, large)).await.unwrap();
    }
    sinks.commit().await.unwrap();
    sink.0.hangs.store(false, Relaxed);
    sinks.close().await.unwrap();
    let more = sink.taken().len() - taken;
    assert!((3..=7).contains(&more), "{more}");
}

#[tokio::test]
async fn what_an_optional_sink_does_not_accept_is_counted_and_not_offered_again() {
    let (sink, must) = (Scripted::default(), Scripted::default());
    let mut sinks = optional(&sink).await.required(must.clone());
    *sink.0.commit.lock().unwrap() = Some(SinkError::passing_but_for("full", some(&[2])));
    *must.0.commit.lock().unwrap() = Some(SinkError::passing("full"));
    assert_eq!(offer(&mut sinks, &[1, 2]).await, Err((vec![1, 2], "full".to_owned())));
    *must.0.commit.lock().unwrap() = None;
    assert_eq!(offer(&mut sinks, &[1, 2]).await, Ok(()));
    tokio::time::sleep(Duration::from_millis(400)).await;
    *sink.0.commit.lock().unwrap() = None;
    *sink.0.writes.lock().unwrap() = vec![None, Some(SinkError::lost("too large")), None];
    assert_eq!(offer(&mut sinks, &[3, 4, 5]).await, Ok(()));
    assert_eq!(sinks.optional[0].close().await, Some(2), "2 was refused, and 4 was lost");
    assert_eq!((must.taken(), sink.taken()), (vec![1, 2, 3, 4, 5], vec![1, 3, 5]));
}
