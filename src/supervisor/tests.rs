//! The supervisor against substitutes for peers that consist of a control link only.

mod hanging;

use std::time::Duration;

use evb_core::{
    id::{BuilderId, Epoch, EventId, Peer, RunId, RunNumber, SourceId},
    ledger::RunReport,
    supervisor::{RunPlan, RunState},
    trigger::{TriggerKind, numbers::AnnouncementCounts},
    units::Frequency,
    wire::control::{
        Begun, BuilderReport, Completions, Control, Heartbeat, Hello, Message, Ready, Reason, Report,
        RoleReport, RunEnd, SourceReport,
    },
};
use evb_net::{
    clock,
    control::{ConnectError, ControlLink, connect},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UdpSocket},
    task::JoinHandle,
};

use super::{COMMANDS, Supervisor, SupervisorConfig, SupervisorHandle, TriggerInput, refuse_late};
use crate::trigger_feed::TriggerFeed;

fn plan(sources: u16, builders: u16, trigger: TriggerKind) -> RunPlan {
    RunPlan {
        trigger,
        ..RunPlan::new(
            RunNumber::new(7),
            Epoch::new(99),
            (1..=sources).map(SourceId::new).collect(),
            (1..=builders).map(BuilderId::new).collect(),
        )
    }
}

fn control(message: Message) -> Control {
    Control { message: Some(message) }
}

fn hello(peer: Peer) -> Hello {
    Hello {
        listen: "127.0.0.1:1".to_owned(),
        highest_run: 1,
        boot_id: evb_net::host::boot_id(),
        ..Hello::new(peer, Peer::Supervisor)
    }
}

async fn join(address: &str, peer: Peer) -> ControlLink {
    connect(address, None, &hello(peer)).await.unwrap().0
}

/// Plays a source that is ready at once and only counts decisions.
async fn fake_source(address: String, id: u16) -> (u64, RunEnd) {
    let mut link = join(&address, Peer::Source(SourceId::new(id))).await;
    let mut decided = 0;
    loop {
        match link.recv().await.unwrap().message.unwrap() {
            Message::Roster(_) => link.send(&control(Message::Ready(Ready {}))).unwrap(),
            Message::Begin(_) => link.send(&control(Message::Begun(Begun::default()))).unwrap(),
            Message::Decisions(decisions) => {
                for (_, count, _) in decisions.verdicts().unwrap() {
                    decided += u64::from(count);
                }
            }
            Message::Heartbeat(beat) => answer(&mut link, &beat),
            Message::Finish(_) => {
                let report = SourceReport { pushed: decided, ..SourceReport::default() };
                link.send(&control(Message::Report(Report {
                    report: Some(RoleReport::Source(report)),
                    live: None,
                })))
                .unwrap();
            }
            Message::RunEnd(end) => return (decided, end),
            _ => {}
        }
        link.flush().await.unwrap();
    }
}

/// Plays a builder that completes every event at once. Returns the number of events, and the number
/// of messages with assignments.
async fn fake_builder(address: String, id: u16) -> (u64, u64) {
    let mut link = join(&address, Peer::Builder(BuilderId::new(id))).await;
    let (mut built, mut batches) = (0, 0);
    loop {
        match link.recv().await.unwrap().message.unwrap() {
            Message::Begin(_) => link.send(&control(Message::Begun(Begun::default()))).unwrap(),
            Message::Assignments(assignments) => {
                let mut completions = Completions { before: built, ..Completions::default() };
                let mut last = EventId::default();
                for (event, _) in assignments.events().unwrap() {
                    completions.add(&mut last, event);
                    built += 1;
                }
                batches += 1;
                link.send(&control(Message::Completions(completions))).unwrap();
            }
            Message::Heartbeat(beat) => answer(&mut link, &beat),
            Message::Finish(_) => {
                let report = BuilderReport { complete: built, written: built, ..BuilderReport::default() };
                link.send(&control(Message::Report(Report {
                    report: Some(RoleReport::Builder(report)),
                    live: None,
                })))
                .unwrap();
            }
            Message::RunEnd(_) => return (built, batches),
            _ => {}
        }
        link.flush().await.unwrap();
    }
}

fn answer(link: &mut ControlLink, beat: &Heartbeat) {
    let reply = Heartbeat { sent_ns: clock::now().as_nanos(), echo_ns: beat.sent_ns, ..Heartbeat::default() };
    link.send(&control(Message::Heartbeat(reply))).unwrap();
}

struct Running {
    address: String,
    handle: SupervisorHandle,
    run: JoinHandle<RunReport>,
    sources: Vec<JoinHandle<(u64, RunEnd)>>,
    builders: Vec<JoinHandle<(u64, u64)>>,
    triggers: Option<std::net::SocketAddr>,
}

async fn running(config: SupervisorConfig) -> Running {
    let (sources, builders) = (config.plan.sources.clone(), config.plan.builders.clone());
    let supervisor = Supervisor::bind(config).await.unwrap();
    let address = supervisor.address().to_string();
    let (handle, triggers) = (supervisor.handle(), supervisor.trigger_address());
    let run = tokio::spawn(async { supervisor.run().await.unwrap() });
    let spawn_source = |id: &SourceId| tokio::spawn(fake_source(address.clone(), id.number()));
    let sources = sources.iter().map(spawn_source).collect();
    let spawn_builder = |id: &BuilderId| tokio::spawn(fake_builder(address.clone(), id.number()));
    let builders = builders.iter().map(spawn_builder).collect();
    let mut progress = handle.progress();
    progress.wait_for(|progress| progress.state != RunState::Configured).await.unwrap();
    Running { address, handle, run, sources, builders, triggers }
}

async fn triggered(handle: &SupervisorHandle, count: u64) {
    let mut progress = handle.progress();
    let wait = progress.wait_for(|progress| progress.events.triggered >= count);
    tokio::time::timeout(Duration::from_secs(5), wait).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_run_ends_complete_and_everybody_hears_of_it() {
    let events = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };
    let plan = RunPlan { events: Some(events), ..plan(4, 4, TriggerKind::AsFastAsPossible) };
    let running = running(SupervisorConfig::new("127.0.0.1:0", plan)).await;
    let report = running.run.await.unwrap();
    assert_eq!((report.exit_code, &report.problems[..]), (0, &[][..]));
    assert_eq!((report.events.complete, report.events.written), (events, events));
    assert!(report.clock.shared);
    for source in running.sources {
        let (decided, end) = source.await.unwrap();
        assert_eq!((decided, end.exit_code), (events, 0));
    }
    let mut batches = 0;
    for builder in running.builders {
        batches += builder.await.unwrap().1;
    }
    println!(
        "{:.0} events/s, {:.1} events per assignment",
        report.rates.events_per_s,
        events as f64 / batches as f64
    );
    assert!(
        running.handle.trigger(1).await.is_err() && running.handle.request_run_end("late").await.is_err()
    );
}

#[tokio::test]
async fn a_script_triggers_by_lines_and_bad_lines_cost_the_connection() {
    let input = Some(TriggerInput::Tcp("127.0.0.1:0".to_owned()));
    let config = SupervisorConfig {
        trigger_input: input,
        ..SupervisorConfig::new("127.0.0.1:0", plan(1, 1, TriggerKind::External))
    };
    let running = running(config).await;
    let mut script = TcpStream::connect(running.triggers.unwrap()).await.unwrap();
    script.write_all(b"3\n\n2\r\n").await.unwrap();
    triggered(&running.handle, 6).await;
    for bad in [&b"GET / HTTP/1.1\r\n"[..], &[b'1'; 100], b"-1\n"] {
        let mut stranger = TcpStream::connect(running.triggers.unwrap()).await.unwrap();
        stranger.write_all(bad).await.unwrap();
        let closed = tokio::time::timeout(Duration::from_secs(5), stranger.read(&mut [0; 8])).await.unwrap();
        assert!(!matches!(closed, Ok(1..)));
    }
    let mut feed = TriggerFeed::lines(running.triggers.unwrap()).await.unwrap();
    feed.tell(4).await.unwrap();
    running.handle.trigger(10).await.unwrap();
    triggered(&running.handle, 20).await;
    running.handle.request_run_end("enough").await.unwrap();
    assert_eq!(running.run.await.unwrap().events.triggered, 20);
}

#[tokio::test]
async fn announcements_that_are_lost_are_made_up_for() {
    let input = Some(TriggerInput::Udp("127.0.0.1:0".to_owned()));
    let config = SupervisorConfig {
        trigger_input: input,
        ..SupervisorConfig::new("127.0.0.1:0", plan(2, 1, TriggerKind::External))
    };
    let running = running(config).await;
    let to = running.triggers.unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    for number in [1, 2, 5, 4, 5, 9_999_999_999] {
        let announcement = evb_core::trigger::announcement::Announcement { number, sent_ns: 0 };
        socket.send_to(&announcement.encode(), to).await.unwrap();
    }
    triggered(&running.handle, 5).await;
    running.handle.request_run_end("enough").await.unwrap();
    let report = running.run.await.unwrap();
    assert_eq!((report.events.triggered, report.events.lost), (5, 0));
    // Announcement 4 is late, 3 is missing, 5 comes twice, and the last one leaps.
    let triggers =
        AnnouncementCounts { unannounced: 1, repeated: 1, too_far_ahead: 1, ..AnnouncementCounts::default() };
    assert_eq!((report.triggers, report.exit_code), (triggers, 1));
    let said = "1 announcement of the trigger program did not arrive";
    assert!(report.remarks.iter().any(|remark| remark.starts_with(said)), "{:?}", report.remarks);
}

#[tokio::test]
async fn who_may_not_take_part_is_told_why() {
    let running = running(SupervisorConfig::new("127.0.0.1:0", plan(1, 1, TriggerKind::External))).await;
    for (hello, reason) in [
        (hello(Peer::Source(SourceId::new(9))), Reason::UnknownPeer),
        (hello(Peer::Source(SourceId::new(1))), Reason::DuplicateId),
        (Hello { run_id: RunId::new(5), ..hello(Peer::Source(SourceId::new(1))) }, Reason::Run),
    ] {
        match connect(&running.address, None, &hello).await {
            Err(ConnectError::Refused { refusal, .. }) => assert_eq!(refusal.reason, reason),
            other => panic!("{other:?}"),
        }
    }
    for foreign in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"evb\xEB\x63\0\x01\0", &[0; 64]] {
        let mut stream = TcpStream::connect(&running.address).await.unwrap();
        stream.write_all(foreign).await.unwrap();
        let mut answer = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer)).await;
        assert!(closed.is_ok(), "{foreign:?} was not closed");
    }
    running.handle.trigger(3).await.unwrap();
    triggered(&running.handle, 3).await;
    running.handle.request_run_end("enough").await.unwrap();
    assert_eq!(running.run.await.unwrap().exit_code, 0, "the others were not disturbed");
}

/// Run control keeps the port for the next run. A role that lost its connection at the end of this
/// one must not wait there until its patience ends.
#[tokio::test]
async fn who_comes_after_the_end_is_told_that_the_run_is_over() {
    let config = SupervisorConfig::new("127.0.0.1:0", plan(1, 1, TriggerKind::External));
    let supervisor = Supervisor::bind(config).await.unwrap();
    let (address, handle) = (supervisor.address().to_string(), supervisor.handle());
    let led = tokio::spawn(supervisor.lead());
    handle.request_run_end("enough").await.unwrap();
    let (report, registrations) = led.await.unwrap().unwrap();
    let _late = tokio::spawn(refuse_late(registrations));
    let newcomer = hello(Peer::Source(SourceId::new(1)));
    let member = Hello { run_id: report.run_id, ..newcomer.clone() };
    let connecting = |hello: Hello| {
        let address = address.clone();
        async move {
            let answer = connect(&address, None, &hello);
            tokio::time::timeout(Duration::from_secs(5), answer).await.expect("an answer").unwrap_err()
        }
    };
    match connecting(member).await {
        ConnectError::Refused { refusal, .. } => assert_eq!(refusal.reason, Reason::RunOver),
        other => panic!("{other:?}"),
    }
    let closed = connecting(newcomer).await;
    assert!(!matches!(closed, ConnectError::Refused { .. }), "the next run may take it: {closed:?}");
}

#[tokio::test]
async fn a_periodic_trigger_keeps_its_rate_and_a_peer_that_breaks_off_is_named() {
    let rate = Frequency::from_hertz(20_000.0).unwrap();
    let plan = RunPlan {
        slots: 1000,
        duration: Some(Duration::from_millis(500)),
        ..plan(2, 2, TriggerKind::Periodic { rate })
    };
    let running = running(SupervisorConfig::new("127.0.0.1:0", plan)).await;
    running.sources[1].abort();
    let report = running.run.await.unwrap();
    assert_eq!(report.events.triggered, 10_000);
    assert_eq!(report.events.open(), Some(0));
    // The builders of this test call every event complete, so the absence cost no event.
    let remarks = &report.remarks;
    assert!(remarks.iter().any(|remark| remark.starts_with("source 2 was down")), "{remarks:?}");
}

#[tokio::test]
async fn commands_wait_up_to_a_limit_and_then_the_caller_does() {
    let plan = RunPlan { hold: true, ..plan(1, 1, TriggerKind::External) };
    let supervisor = Supervisor::bind(SupervisorConfig::new("127.0.0.1:0", plan)).await.unwrap();
    let handle = supervisor.handle();
    // The supervisor does not run yet, so it carries out nothing.
    for _ in 0..COMMANDS {
        handle.trigger(0).await.unwrap();
    }
    let mut next = std::pin::pin!(handle.trigger(0));
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut next).await.is_err(), "the queue is full");
    let run = tokio::spawn(supervisor.run());
    tokio::time::timeout(Duration::from_secs(20), next).await.unwrap().unwrap();
    handle.abort();
    assert!(run.await.unwrap().is_err());
}
