//! Corrupted control messages at the supervisor: at its machine alone, and at a running supervisor
//! over loopback.

use std::time::Duration;

use bytes::BytesMut;
use evb::{
    id::{BuilderId, Epoch, EventId, RunNumber, SourceId},
    supervisor::{RunPlan, TriggerKind},
    units::Frequency,
};
use evb_core::wire::encoding::Encoding as _;
use evb_core::{
    id::Peer,
    supervisor::{Output, SupervisorCore},
    time::Instant,
    wire::{
        control::{
            Begun, BuilderReport, Completions, Control, Decisions, Exception, Heartbeat, Hello, LaneReport,
            Live, Message, Outcome, Ready, Report, RoleReport, SourceReport, Triggers,
        },
        preamble::ConnectionKind,
    },
};
use evb_net::{control::encode_into, handshake::connect_handshake};
use proptest::prelude::*;
use tokio::{io::AsyncWriteExt as _, net::TcpStream, time::sleep};

use crate::{
    log,
    support::{Numbers, assert_whole, begin, plan},
};

/// Returns every kind of message that a peer sends, and one kind that no peer sends.
fn messages() -> Vec<Message> {
    let mut completions = Completions::default();
    let mut last = EventId::default();
    for event in [3, 1, 2, 7] {
        completions.add(&mut last, EventId::new(event));
    }
    let exception = Exception {
        event: 4,
        outcome: Outcome::Incomplete,
        missing: vec![1, 2],
        cause: "slow".to_owned(),
        missing_causes: vec![1, 2],
    };
    completions.exceptions.push(exception);
    let lane = LaneReport { source: 1, fragments: 7, missing: 1, ..LaneReport::default() };
    let builder = BuilderReport {
        complete: 4,
        lanes: vec![lane],
        latency_us: vec![100, 4, 200, 3],
        ..BuilderReport::default()
    };
    let live = Live { at_sink: 2, latency: vec![7, 4], disk_bytes: 100, ..Live::default() };
    let source = SourceReport { pushed: 9, committed: 8, ..SourceReport::default() };
    vec![
        Message::Completions(completions),
        Message::Heartbeat(Heartbeat {
            sent_ns: 1 << 40,
            echo_ns: 1 << 30,
            echo_delay_ns: 17,
            load: None,
            is_paused: true,
        }),
        Message::Report(Report { report: Some(RoleReport::Builder(builder)), live: Some(live) }),
        Message::Report(Report { report: Some(RoleReport::Source(source)), live: None }),
        Message::Ready(Ready {}),
        Message::Triggers(Triggers { count: 3 }),
        Message::Decisions(Decisions { first: 1, runs: vec![3, 3] }),
    ]
}

fn encoded(which: usize) -> Vec<u8> {
    let all = messages();
    let message = all[which % all.len()].clone();
    Control { message: Some(message) }.encode_to_vec()
}

/// Message, kind of error, position and value.
type Mutation = (usize, u8, usize, u8);

fn mutated((which, kind, at, value): Mutation) -> Vec<u8> {
    let mut bytes = encoded(which);
    let at = at % bytes.len();
    match kind {
        0..=2 => bytes[at] ^= 1 << (value % 8),
        3 => bytes[at] = value,
        4 => bytes.truncate(at),
        5 => bytes.insert(at, value),
        6 => drop(bytes.remove(at)),
        _ => bytes = vec![value; at],
    }
    bytes
}

fn mutations() -> impl Strategy<Value = Vec<(bool, Mutation)>> {
    proptest::collection::vec((any::<bool>(), (0usize..7, 0u8..8, any::<usize>(), any::<u8>())), 1..12)
}

/// A run in which source 1 and builder 1 are honest, and source 2 and builder 2 are not.
struct Stage {
    core: SupervisorCore,
    now: Instant,
    dropped: usize,
    closed: Option<bool>,
}

impl Stage {
    fn new() -> Self {
        let rate = Frequency::from_hertz(10_000.0).expect("that is a rate");
        let (sources, builders) = ([1, 2].map(SourceId::new), [1, 2].map(BuilderId::new));
        let plan = RunPlan {
            trigger: TriggerKind::Periodic { rate },
            slots: 4,
            ..RunPlan::new(RunNumber::new(1), Epoch::new(5), sources.to_vec(), builders.to_vec())
        };
        let now = Instant::from_nanos(1_000_000_000);
        let core = SupervisorCore::new(plan, 1, now).expect("the plan is sound");
        let mut stage = Self { core, now, dropped: 0, closed: None };
        for peer in
            [1, 2].map(|id| Peer::Builder(BuilderId::new(id))).into_iter().chain(sources.map(Peer::Source))
        {
            let hello =
                Hello { listen: "a:1".to_owned(), max_fragment: 10, ..Hello::new(peer, Peer::Supervisor) };
            stage.core.register(&hello, now).expect("a planned peer");
        }
        for source in sources {
            stage.say(Peer::Source(source), Message::Ready(Ready {}));
        }
        for peer in stage.core.peers() {
            stage.say(peer, Message::Begun(Begun::default()));
        }
        stage.pass(Duration::from_millis(2));
        assert!(stage.core.decided() > EventId::FIRST, "the run runs");
        stage
    }

    fn say(&mut self, peer: Peer, message: Message) {
        self.core.handle_message(peer, Control { message: Some(message) }, self.now);
        self.drain();
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.core.handle_timeout(self.now);
        self.drain();
    }

    fn drain(&mut self) {
        for count in 0.. {
            match self.core.poll(self.now) {
                Some(Output::Drop { .. }) => self.dropped += 1,
                Some(Output::Ended(report)) => self.closed = Some(report.events.open() == Some(0)),
                Some(Output::Send { .. } | Output::Journal(_) | Output::Begun(_)) => {}
                None => break,
            }
            assert!(count < 10_000, "the state machine never comes to rest");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    #[test]
    fn whatever_peers_say_the_ledger_closes(said in mutations()) {
        let mut stage = Stage::new();
        for (is_source, mutation) in said {
            let peer = if is_source { Peer::Source(SourceId::new(2)) } else { Peer::Builder(BuilderId::new(2)) };
            if let Ok(message) = Control::read(&mutated(mutation)) {
                stage.core.handle_message(peer, message, stage.now);
            } else {
                stage.core.handle_disconnect(peer, "no control message", stage.now);
            }
            stage.drain();
            stage.pass(Duration::from_millis(1));
        }
        stage.core.stop("seen enough", stage.now);
        for _ in 0..40 {
            stage.pass(Duration::from_secs(1));
        }
        prop_assert_eq!(stage.closed, Some(true), "the ledger stays open");
    }
}

/// Number of connections that a lying source opens, and number of messages on each.
const CONNECTIONS: usize = 60;
const SAID: usize = 20;

/// Registers as source 2 and sends wrong messages; returns the number of these messages.
async fn babble(supervisor: &str, seed: usize) -> usize {
    let hello = Hello { max_fragment: 100, ..Hello::new(Peer::Source(SourceId::new(2)), Peer::Supervisor) };
    for _ in 0..200 {
        let mut stream = TcpStream::connect(supervisor).await.expect("the supervisor listens");
        // The supervisor may not have noticed the end of the previous connection.
        if connect_handshake(&mut stream, ConnectionKind::Control, &hello).await.is_err() {
            sleep(Duration::from_millis(5)).await;
            continue;
        }
        let mut said = 0;
        for n in 0..SAID {
            let noise = (seed * SAID + n).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mutation = (noise >> 8) % 7;
            let mut bytes = mutated((mutation, (noise >> 16) as u8 % 8, noise >> 24, (noise >> 40) as u8));
            // Every peer may ask for the end of the run.
            if let Ok(Control { message: Some(Message::Stop(_)) }) = Control::read(&bytes) {
                bytes.clear();
            }
            let length = if n % 7 == 6 { noise as u32 } else { bytes.len() as u32 };
            let sent = stream.write_all(&[&length.to_le_bytes()[..], &bytes].concat()).await;
            said += usize::from(sent.is_ok());
        }
        return said;
    }
    panic!("the supervisor never lets source 2 in again");
}

#[tokio::test]
async fn a_registered_peer_that_babbles_is_cut_off_and_the_others_go_on() {
    log::keep();
    let rate = Frequency::from_hertz(500.0).expect("that is a rate");
    let plan = RunPlan { trigger: TriggerKind::Periodic { rate }, ..plan(2, 1, u64::MAX) };
    let mut system = begin(plan).await;
    let source = SourceId::new(1);
    let config = evb::source::SourceConfig::new(source, &system.address);
    let readout = Numbers { source, length: 1000 };
    system.sources.push(evb::source::Source::on_demand(config, readout).await.expect("the source joins"));
    let (handle, address) = (system.supervisor.clone(), system.address.clone());
    let mut progress = handle.progress();
    let finishing = tokio::spawn(system.finish());
    // Source 2 reports ready once, so that the run begins, and then leaves.
    let hello = Hello { max_fragment: 100, ..Hello::new(Peer::Source(SourceId::new(2)), Peer::Supervisor) };
    let mut stream = TcpStream::connect(&address).await.expect("the supervisor listens");
    connect_handshake(&mut stream, ConnectionKind::Control, &hello).await.expect("a planned peer");
    let mut ready = BytesMut::new();
    encode_into(&Control { message: Some(Message::Ready(Ready {})) }, &mut ready);
    stream.write_all(&ready).await.expect("sent");
    // An answer that comes before the supervisor has asked for it does not count.
    let mut begun = BytesMut::new();
    encode_into(&Control { message: Some(Message::Begun(Begun::default())) }, &mut begun);
    loop {
        tokio::select! {
            began = progress.wait_for(|now| now.events.triggered > 0) => {
                began.expect("the run begins");
                break;
            }
            () = sleep(Duration::from_millis(50)) => stream.write_all(&begun).await.expect("sent"),
        }
    }
    drop(stream);

    let mut said = 0;
    for seed in 0..CONNECTIONS {
        said += babble(&address, seed).await;
    }
    assert!(said > 300, "{said} wrong messages came through");
    // Events that are assigned while source 2 is down do not wait for its fragments.
    let before = progress.latest().events.incomplete;
    progress.wait_for(|now| now.events.incomplete > before + 100).await.expect("the run goes on");
    handle.request_run_end("seen enough").await.expect("the run goes on");
    let (mut events, report) = finishing.await.expect("no panic");
    assert_eq!(
        (report.events.open(), report.events.lost, report.exit_code),
        (Some(0), 0, 1),
        "{}",
        report.verdict
    );
    assert!(report.problems.iter().any(|problem| problem.contains("source 2")), "{:?}", report.problems);
    assert!(report.problems.len() < 100, "{} problems are told", report.problems.len());
    for event in &mut events {
        assert!(std::mem::take(&mut event.missing).iter().all(|missing| missing.source == SourceId::new(2)));
    }
    assert_whole(&events, 1, 1000);
    assert_eq!(report.events.triggered, report.events.inhibited + events.len() as u64);
}
