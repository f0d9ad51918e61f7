use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use evb_core::{
    alignment::Episode,
    event::Event,
    id::{BuilderId, Epoch, EventId, RunId, RunNumber, SourceId},
    ledger::OwingChange,
};
use evb_file::{WriterOptions, files_at};
use tokio::sync::mpsc;

use super::{BEGINS, Begun, Fate, Stage, start};
use crate::{
    filter::{AcceptAll, Filter, FilterVerdict},
    sink::{FileSink, RunFacts, Sink, SinkError},
};

const RUN: RunNumber = RunNumber::new(1);

/// A sink with a script: the error or success of each call of `write`, and the events that it has
/// taken.
#[derive(Clone, Default)]
struct Moody {
    moods: Arc<Mutex<Vec<Option<SinkError>>>>,
    staged: Vec<u64>,
    taken: Arc<Mutex<Vec<u64>>>,
    commit: Arc<Mutex<Option<SinkError>>>,
    begin: Arc<Mutex<Option<SinkError>>>,
    told: Arc<Mutex<Vec<Episode>>>,
    changes: Arc<Mutex<Vec<OwingChange>>>,
    at_begin: Arc<Mutex<Vec<OwingChange>>>,
}

impl Sink for Moody {
    async fn begin(&mut self, _run: &RunFacts) -> Result<(), SinkError> {
        self.changes.lock().unwrap().clone_into(&mut self.at_begin.lock().unwrap());
        self.begin.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    async fn write(&mut self, event: &Event) -> Result<(), SinkError> {
        if let Some(Some(error)) = self.moods.lock().unwrap().pop() {
            self.staged.clear();
            return Err(error);
        }
        self.staged.push(event.id.number());
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), SinkError> {
        if let Some(error) = self.commit.lock().unwrap().clone() {
            self.staged.clear();
            return Err(error);
        }
        self.taken.lock().unwrap().append(&mut self.staged);
        Ok(())
    }

    fn note_episodes(&mut self, episodes: &[Episode]) {
        episodes.clone_into(&mut self.told.lock().unwrap());
    }

    fn note_changes(&mut self, changes: &[OwingChange]) {
        changes.clone_into(&mut self.changes.lock().unwrap());
    }
}

fn event(id: u64) -> Event {
    Event::empty(EventId::new(id), RUN, Epoch::new(1), BuilderId::new(1))
}

async fn stage(sink: Moody, give_up: Duration) -> Stage {
    filtered(AcceptAll, sink, give_up).await
}

async fn filtered(filter: impl Filter, sink: Moody, give_up: Duration) -> Stage {
    let (mut stage, prepared) = start(BuilderId::new(1), sink, Box::new(filter), give_up, None).unwrap();
    assert_eq!(prepared.await.unwrap(), Ok(None));
    assert_eq!(begin(&mut stage, 1).await, (Ok(()), None));
    stage
}

/// Lets the sink begin run `run`; returns the result.
async fn begin(stage: &mut Stage, run: u32) -> Begun {
    stage.begin(RunFacts {
        run_id: RunId::new(1),
        run: RunNumber::new(run),
        epoch: Epoch::new(1),
        builder: BuilderId::new(1),
        sources: vec![SourceId::new(1)],
        ..RunFacts::default()
    });
    let begun = std::future::poll_fn(|cx| stage.poll_begun(cx));
    tokio::time::timeout(Duration::from_secs(10), begun).await.unwrap().unwrap()
}

async fn fates(stage: &mut Stage, count: usize) -> Vec<(u64, Option<String>)> {
    let mut all = Vec::new();
    while all.len() < count {
        let next = std::future::poll_fn(|cx| stage.poll_fate(cx));
        let (event, fate) = tokio::time::timeout(Duration::from_secs(10), next).await.unwrap().unwrap();
        all.push((
            event.id.number(),
            match fate {
                Fate::Failed(cause) => Some(cause),
                _ => None,
            },
        ));
    }
    all
}

#[tokio::test]
async fn what_passes_costs_time_and_no_event() {
    let sink = Moody::default();
    *sink.moods.lock().unwrap() =
        vec![Some(SinkError::passing("full")), None, Some(SinkError::passing("full")), None, None];
    let taken = Arc::clone(&sink.taken);
    let mut stage = stage(sink, Duration::from_secs(5)).await;
    (1..=5).for_each(|id| stage.submit(event(id)).unwrap());
    assert_eq!(fates(&mut stage, 5).await, (1..=5).map(|id| (id, None)).collect::<Vec<_>>());
    assert_eq!(*taken.lock().unwrap(), [1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn a_commit_that_fails_for_a_while_takes_nothing_twice() {
    let sink = Moody::default();
    *sink.commit.lock().unwrap() = Some(SinkError::passing("full"));
    let (taken, commit) = (Arc::clone(&sink.taken), Arc::clone(&sink.commit));
    let mut stage = stage(sink, Duration::from_secs(5)).await;
    (1..=3).for_each(|id| stage.submit(event(id)).unwrap());
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(stage.poll_fate(cx).is_pending())).await);
    // While the sink fails, more events arrive and wait in their slots.
    (4..=8).for_each(|id| stage.submit(event(id)).unwrap());
    *commit.lock().unwrap() = None;
    assert_eq!(fates(&mut stage, 8).await, (1..=8).map(|id| (id, None)).collect::<Vec<_>>());
    assert_eq!(*taken.lock().unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[tokio::test]
async fn at_the_end_of_the_run_it_is_given_up_with_its_words() {
    let sink = Moody::default();
    *sink.commit.lock().unwrap() = Some(SinkError::passing("disk 7 is full (os error 28)"));
    let mut stage = stage(sink, Duration::from_millis(500)).await;
    (1..=2).for_each(|id| stage.submit(event(id)).unwrap());
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert!(
        std::future::poll_fn(|cx| std::task::Poll::Ready(stage.poll_fate(cx).is_pending())).await,
        "too early"
    );
    stage.expect_end();
    for (_, cause) in fates(&mut stage, 2).await {
        let cause = cause.unwrap();
        assert!(cause.contains("0.5 s after the stop") && cause.contains("os error 28"), "{cause}");
    }
    stage.close().await;
}

#[tokio::test]
async fn a_sink_that_cannot_begin_yet_holds_its_events() {
    let sink = Moody::default();
    *sink.begin.lock().unwrap() = Some(SinkError::passing("full"));
    let (taken, begin) = (Arc::clone(&sink.taken), Arc::clone(&sink.begin));
    let mut stage = stage(sink, Duration::from_secs(5)).await;
    (1..=3).for_each(|id| stage.submit(event(id)).unwrap());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(std::future::poll_fn(|cx| std::task::Poll::Ready(stage.poll_fate(cx).is_pending())).await);
    *begin.lock().unwrap() = None;
    assert_eq!(fates(&mut stage, 3).await, (1..=3).map(|id| (id, None)).collect::<Vec<_>>());
    assert_eq!(*taken.lock().unwrap(), [1, 2, 3]);
}

#[tokio::test]
async fn a_sink_that_never_can_begin_is_refused() {
    let sink = Moody::default();
    *sink.begin.lock().unwrap() = Some(SinkError::lost("no such directory"));
    let mood = Arc::clone(&sink.begin);
    let give_up = Duration::from_secs(5);
    let (mut stage, _) = start(BuilderId::new(1), sink, Box::new(AcceptAll), give_up, None).unwrap();
    assert_eq!(begin(&mut stage, 1).await.0, Err("no such directory".to_owned()));
    *mood.lock().unwrap() = None;
    assert_eq!(begin(&mut stage, 1).await.0, Ok(()), "the operator has made the directory");
}

#[tokio::test]
async fn a_sink_that_cannot_be_used_says_so_before_any_run() {
    struct Unusable;
    impl Sink for Unusable {
        async fn prepare(&mut self) -> Result<Option<RunNumber>, SinkError> {
            Err(SinkError::lost("no such directory"))
        }

        async fn write(&mut self, _event: &Event) -> Result<(), SinkError> {
            Ok(())
        }
    }
    let give_up = Duration::from_secs(5);
    let (_stage, prepared) = start(BuilderId::new(1), Unusable, Box::new(AcceptAll), give_up, None).unwrap();
    assert_eq!(prepared.await.unwrap(), Err(SinkError::lost("no such directory")));
}

#[tokio::test]
async fn a_run_that_gets_another_number_begins_again_and_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let sink = FileSink::new(dir.path().join("new"), WriterOptions::default());
    let give_up = Duration::from_secs(5);
    let (mut stage, prepared) = start(BuilderId::new(1), sink, Box::new(AcceptAll), give_up, None).unwrap();
    assert_eq!(prepared.await.unwrap(), Ok(None));
    assert!(!dir.path().join("new").exists(), "nothing is made before the run begins");
    for run in [4, 4, 6] {
        assert_eq!(begin(&mut stage, run).await.0, Ok(()));
    }
    let mut of_another_run = event(1);
    of_another_run.run = RunNumber::new(6);
    stage.submit(of_another_run).unwrap();
    assert_eq!(fates(&mut stage, 1).await, [(1, None)]);
    stage.close().await;
    let files = files_at(&dir.path().join("new")).unwrap();
    let names: Vec<_> = files.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["run000006_b01_0000.evb"]);
    let mut again = FileSink::new(dir.path().join("new"), WriterOptions::default());
    assert_eq!(again.prepare().await, Ok(Some(RunNumber::new(6))));
    let mut unusable = FileSink::new(&files[0], WriterOptions::default());
    assert!(unusable.prepare().await.is_err(), "that is a file");
}

#[tokio::test]
async fn an_error_that_does_not_pass_loses_one_event_and_no_other() {
    let sink = Moody::default();
    *sink.moods.lock().unwrap() = vec![None, Some(SinkError::lost("not this one")), None];
    let taken = Arc::clone(&sink.taken);
    let mut stage = stage(sink, Duration::from_secs(5)).await;
    stage.submit(event(1)).unwrap();
    assert_eq!(fates(&mut stage, 1).await, [(1, None)]);
    stage.submit(event(2)).unwrap();
    assert_eq!(fates(&mut stage, 1).await, [(2, Some("not this one".to_owned()))]);
    stage.submit(event(3)).unwrap();
    assert_eq!(fates(&mut stage, 1).await, [(3, None)]);
    assert_eq!(*taken.lock().unwrap(), [1, 3]);
}

/// Even if it comes last, and before the sink has begun.
#[tokio::test]
async fn what_happened_to_sources_reaches_the_sink() {
    let episode = |since, until| {
        let (since, until) = (EventId::new(since), Some(until).filter(|id| *id > 0).map(EventId::new));
        Episode { source: SourceId::new(7), since, until, ..Episode::default() }
    };
    let sink = Moody::default();
    let told = Arc::clone(&sink.told);
    let (mut stage, _) =
        start(BuilderId::new(1), sink, Box::new(AcceptAll), Duration::from_secs(5), None).unwrap();
    stage.note_episodes(vec![episode(5, 0)]);
    begin(&mut stage, 1).await.0.unwrap();
    assert_eq!(*told.lock().unwrap(), [episode(5, 0)]);
    stage.note_episodes(vec![episode(9, 0)]);
    stage.note_episodes(vec![episode(5, 8)]);
    stage.close().await;
    assert_eq!(*told.lock().unwrap(), [episode(5, 8), episode(9, 0)]);
}

/// Before the sink begins, and even if a change comes last.
#[tokio::test]
async fn changes_reach_the_sink() {
    let change = |from| OwingChange::exclude(SourceId::new(7), EventId::new(from), "no power");
    let sink = Moody::default();
    let (changes, at_begin) = (Arc::clone(&sink.changes), Arc::clone(&sink.at_begin));
    let (mut stage, _) =
        start(BuilderId::new(1), sink, Box::new(AcceptAll), Duration::from_secs(5), None).unwrap();
    stage.note_changes(vec![change(1)]);
    begin(&mut stage, 1).await.0.unwrap();
    assert_eq!(*at_begin.lock().unwrap(), [change(1)]);
    stage.note_changes(vec![change(1), change(9)]);
    stage.close().await;
    assert_eq!(*changes.lock().unwrap(), [change(1), change(9)]);
}

#[tokio::test]
async fn a_builder_that_is_gone_is_not_waited_for() {
    let (gone, mut is_gone) = mpsc::channel::<()>(1);
    struct Closes(Moody, #[expect(dead_code, reason = "its end is what is waited for")] mpsc::Sender<()>);
    impl Sink for Closes {
        async fn write(&mut self, event: &Event) -> Result<(), SinkError> {
            self.0.write(event).await
        }

        async fn commit(&mut self) -> Result<(), SinkError> {
            Err(SinkError::passing("full"))
        }
    }
    let (sink, give_up) = (Closes(Moody::default(), gone), Duration::from_secs(3600));
    let (mut stage, _) = start(BuilderId::new(1), sink, Box::new(AcceptAll), give_up, None).unwrap();
    begin(&mut stage, 1).await.0.unwrap();
    stage.submit(event(1)).unwrap();
    drop(stage);
    let ended = tokio::time::timeout(Duration::from_secs(5), is_gone.recv()).await;
    assert_eq!(ended.unwrap(), None);
}

#[tokio::test]
async fn an_event_without_a_verdict_is_lost_by_name() {
    /// Judges the first event of a batch only.
    struct Lazy;
    impl Filter for Lazy {
        fn verdict(&mut self, _: &Event) -> FilterVerdict {
            FilterVerdict::Accept
        }

        fn verdicts(&mut self, events: &[Event]) -> Vec<FilterVerdict> {
            events.iter().take(1).map(|event| self.verdict(event)).collect()
        }
    }
    // The sink is full at first, so that later events wait for the filter together.
    let sink = Moody::default();
    *sink.moods.lock().unwrap() = vec![None, None, Some(SinkError::passing("full"))];
    let taken = Arc::clone(&sink.taken);
    let mut stage = filtered(Lazy, sink, Duration::from_secs(5)).await;
    (1..=8).for_each(|id| stage.submit(event(id)).unwrap());
    let fates = fates(&mut stage, 8).await;
    let lost = fates.iter().filter(|(_, cause)| cause.is_some()).count();
    assert!(lost > 0 && lost + taken.lock().unwrap().len() == 8, "{fates:?}");
    let words = "the builder's filter did not judge it; correct the filter";
    assert!(fates.iter().flat_map(|(_, cause)| cause).all(|cause| cause == words), "{fates:?}");
}

/// A sink that cannot begin before it gets a permit.
struct Hanging(Arc<tokio::sync::Semaphore>);

impl Sink for Hanging {
    async fn begin(&mut self, _run: &RunFacts) -> Result<(), SinkError> {
        self.0.acquire().await.unwrap().forget();
        Err(SinkError::lost("no"))
    }

    async fn write(&mut self, _event: &Event) -> Result<(), SinkError> {
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

#[tokio::test]
async fn requests_to_begin_wait_up_to_a_limit_and_further_ones_are_dropped() {
    let permits = Arc::new(tokio::sync::Semaphore::new(0));
    let sink = Hanging(Arc::clone(&permits));
    let (mut stage, prepared) =
        start(BuilderId::new(1), sink, Box::new(AcceptAll), Duration::from_secs(1), None).unwrap();
    prepared.await.unwrap().unwrap();
    (0..100).for_each(|_| stage.begin(RunFacts::default()));
    permits.add_permits(100);
    let mut begun = 0;
    let patience = Duration::from_millis(500);
    while tokio::time::timeout(patience, std::future::poll_fn(|cx| stage.poll_begun(cx))).await.is_ok() {
        begun += 1;
    }
    // The sink may have taken one of them before the queue was full.
    assert!((BEGINS..=BEGINS + 1).contains(&begun), "{begun}");
    stage.close().await;
}
