//! Wrong connections to every port of a run, which must go on.

use std::{net::SocketAddr, time::Duration};

use evb::{
    id::{BuilderId, RunId, SourceId},
    supervisor::{RunPlan, TriggerKind},
    units::Frequency,
};
use evb_core::wire::encoding::Encoding as _;
use evb_core::{
    id::Peer,
    wire::{
        control::{Hello, HelloReply, Reason, Reply, Role},
        preamble::{ConnectionKind, PROTOCOL_VERSION, preamble},
    },
};
use evb_needs::{Missing, granted, open_files};
use evb_net::handshake::opening;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};

use crate::{
    log,
    support::{assert_whole, plan, start},
};

/// Number of silent connections per port: many times the number of handshakes that may be under way
/// at once.
const SILENT: usize = 300;
/// Number of silent connections per port where a process may open few files; still above the number
/// of handshakes.
const FEWER_SILENT: usize = 100;

/// A client that does not belong to the run: the bytes that it sends, and the answer that it must
/// get; `None` means that its connection must be closed without an answer.
struct Stranger {
    name: &'static str,
    says: Vec<u8>,
    hangs_up: bool,
    answer: Option<Reason>,
}

fn stranger(name: &'static str, says: Vec<u8>, answer: Option<Reason>) -> Stranger {
    Stranger { name, says, hangs_up: false, answer }
}

/// Returns strangers that fail before their identity is checked.
fn foreigners(kind: ConnectionKind, other: ConnectionKind) -> Vec<Stranger> {
    let raw = |version: u16, kind: u16, length: u32, body: &[u8]| {
        let mut bytes = preamble(ConnectionKind::Control).to_vec();
        bytes[4..6].copy_from_slice(&version.to_le_bytes());
        bytes[6..8].copy_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(body);
        bytes
    };
    let number = |kind| if kind == ConnectionKind::Control { 1 } else { 2 };
    let (kind, other) = (number(kind), number(other));
    let noise: Vec<u8> = (0..5000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let ours = PROTOCOL_VERSION;
    let mut hello = raw(ours, kind, 19, &[8, 2, 16, 3]);
    hello.truncate(14);
    vec![
        stranger("HTTP", b"GET / HTTP/1.1\r\nHost: daq\r\nAccept: */*\r\n\r\n".to_vec(), None),
        stranger("TLS", [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3], &noise[..500]].concat(), None),
        stranger("SSH", b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(), None),
        stranger("noise", noise.clone(), None),
        stranger(
            "our magic, then another protocol",
            b"evb\xeb and more of it".to_vec(),
            Some(Reason::ProtocolVersion),
        ),
        stranger("an older version", raw(ours - 1, kind, 0, &[]), Some(Reason::ProtocolVersion)),
        stranger("a newer version", raw(ours + 1, kind, 0, &[]), Some(Reason::ProtocolVersion)),
        stranger("version 0", raw(0, kind, 0, &[]), Some(Reason::ProtocolVersion)),
        stranger("the other kind", raw(ours, other, 0, &[]), Some(Reason::WrongRole)),
        stranger("no kind", raw(ours, 77, 0, &[]), Some(Reason::WrongRole)),
        stranger("4 GiB of hello", raw(ours, kind, u32::MAX, &[]), Some(Reason::Malformed)),
        stranger("a hello of 4097 bytes", raw(ours, kind, 4097, &[]), Some(Reason::Malformed)),
        stranger("a hello of noise", raw(ours, kind, 400, &noise[..400]), Some(Reason::Malformed)),
        stranger("an empty hello", raw(ours, kind, 0, &[]), Some(Reason::Malformed)),
        Stranger { hangs_up: true, ..stranger("half a hello", hello, None) },
        Stranger { hangs_up: true, ..stranger("half a preamble", b"evb".to_vec(), None) },
        Stranger { hangs_up: true, ..stranger("nothing, and gone", vec![], None) },
    ]
}

fn says_hello(name: &'static str, kind: ConnectionKind, hello: &Hello, answer: Reason) -> Stranger {
    stranger(name, opening(kind, hello), Some(answer))
}

/// Returns peers that speak the protocol but are wrong at the supervisor's port.
fn at_the_supervisor(run: RunId) -> Vec<Stranger> {
    let kind = ConnectionKind::Control;
    let source = |id| Peer::Source(SourceId::new(id));
    let builder = |id| Peer::Builder(BuilderId::new(id));
    let hello = |from| Hello::new(from, Peer::Supervisor);
    let known = Hello { run_id: run, ..hello(source(1)) };
    vec![
        says_hello("another run", kind, &Hello { run_id: RunId::new(2), ..known.clone() }, Reason::Run),
        says_hello("for a builder", kind, &Hello::new(source(1), builder(1)), Reason::WrongRole),
        says_hello("a second supervisor", kind, &hello(Peer::Supervisor), Reason::WrongRole),
        says_hello("an unknown source", kind, &hello(source(99)), Reason::UnknownPeer),
        says_hello("an unknown builder", kind, &hello(builder(99)), Reason::UnknownPeer),
        says_hello("an id of 17 bits", kind, &Hello { id: 65_537, ..hello(source(1)) }, Reason::Malformed),
        says_hello(
            "no role",
            kind,
            &Hello { role: Role::Unspecified, ..hello(source(1)) },
            Reason::Malformed,
        ),
        says_hello("source 1 again", kind, &known, Reason::DuplicateId),
        says_hello("builder 2 again", kind, &hello(builder(2)), Reason::DuplicateId),
    ]
}

/// Returns peers that speak the protocol but are wrong at builder 1's port.
fn at_builder_1(run: RunId) -> Vec<Stranger> {
    let kind = ConnectionKind::Lane;
    let source = |id| Peer::Source(SourceId::new(id));
    let builder = |id| Peer::Builder(BuilderId::new(id));
    let hello = |from, to| Hello { run_id: run, to_incarnation: 1, ..Hello::new(from, to) };
    let known = hello(source(1), builder(1));
    vec![
        says_hello("no run", kind, &Hello { run_id: RunId::UNKNOWN, ..known.clone() }, Reason::Run),
        says_hello("another run", kind, &Hello { run_id: RunId::new(2), ..known.clone() }, Reason::Run),
        says_hello("for builder 2", kind, &hello(source(1), builder(2)), Reason::WrongId),
        says_hello("for the supervisor", kind, &hello(source(1), Peer::Supervisor), Reason::WrongId),
        says_hello("from a builder", kind, &hello(builder(2), builder(1)), Reason::WrongRole),
        says_hello("from the supervisor", kind, &hello(Peer::Supervisor, builder(1)), Reason::WrongRole),
        says_hello("an unknown source", kind, &hello(source(99), builder(1)), Reason::UnknownPeer),
        says_hello(
            "from nobody",
            kind,
            &Hello { role: Role::Unspecified, ..known.clone() },
            Reason::Malformed,
        ),
        says_hello(
            "of an earlier life",
            kind,
            &Hello { to_incarnation: 0, ..known.clone() },
            Reason::Incarnation,
        ),
        says_hello(
            "of another life",
            kind,
            &Hello { to_incarnation: 2, ..known.clone() },
            Reason::Incarnation,
        ),
        says_hello("source 1 of an earlier life", kind, &known, Reason::DuplicateId),
    ]
}

/// Sends the bytes of a stranger and checks the answer; returns the port from which they came.
async fn knock(at: SocketAddr, kind: ConnectionKind, stranger: &Stranger) -> u16 {
    let name = stranger.name;
    let mut stream = TcpStream::connect(at).await.expect("the port is open");
    let port = stream.local_addr().expect("a socket").port();
    stream.write_all(&stranger.says).await.expect("sent");
    if stranger.hangs_up {
        stream.shutdown().await.expect("the system shuts it");
    }
    let mut answer = Vec::new();
    let read = timeout(Duration::from_secs(4), stream.read_to_end(&mut answer)).await;
    let read = read.unwrap_or_else(|_| panic!("{name} at {at}: not closed; {} bytes came", answer.len()));
    // The operating system resets a connection that has unread bytes, which also closes the
    // connection.
    if stranger.answer.is_none() {
        assert!(answer.is_empty(), "{name} at {at}: {read:?}, {answer:?}");
        return port;
    }
    let body =
        answer.strip_prefix(&preamble(kind)[..]).unwrap_or_else(|| panic!("{name} at {at}: {answer:?}"));
    let reply = HelloReply::decode(&body[4..]).expect("a reply");
    let Some(Reply::Refusal(refusal)) = reply.reply else { panic!("{name} at {at}: {reply:?}") };
    assert_eq!(Some(refusal.reason), stranger.answer, "{name} at {at}: {}", refusal.detail);
    assert!(!refusal.detail.is_empty(), "{name} at {at}: no words");
    if refusal.reason == Reason::ProtocolVersion {
        let theirs = u16::from_le_bytes([stranger.says[4], stranger.says[5]]);
        let both = [theirs, PROTOCOL_VERSION].map(|version| format!("version {version}"));
        assert!(both.iter().all(|version| refusal.detail.contains(version)), "{name}: {}", refusal.detail);
    }
    port
}

/// Returns the number of silent connections per port, if this process may open as many files.
fn room_for(silent: usize) -> Result<usize, Missing> {
    // Both ends of a connection to each of three ports are in this process, beside the run and the
    // other tests.
    open_files(2 * 3 * silent as u64 + 400).map(|()| silent)
}

#[tokio::test]
async fn strangers_are_turned_away_and_the_run_goes_on() {
    let Some(count) = granted(room_for(SILENT).or_else(|_| room_for(FEWER_SILENT))) else { return };
    log::keep();
    let began = Instant::now();
    let rate = Frequency::from_hertz(500.0).expect("that is a rate");
    let run = RunId::new(7);
    let plan = RunPlan { trigger: TriggerKind::Periodic { rate }, run_id: run, ..plan(3, 2, u64::MAX) };
    let system = start(plan, 2000).await;
    let supervisor: SocketAddr = system.address.parse().expect("an address");
    let builders: Vec<_> = system.builders.iter().map(evb::builder::Builder::address).collect();
    let handle = system.supervisor.clone();
    let mut progress = handle.progress();
    let finishing = tokio::spawn(system.finish());
    progress.wait_for(|now| now.events.complete > 50).await.expect("the run goes on");

    let ports = [supervisor, builders[0], builders[1]];
    let mut silent = Vec::new();
    for port in ports.iter().cycle().take(count * ports.len()) {
        silent.push(TcpStream::connect(port).await.expect("the system takes it"));
    }
    let mut from: Vec<u16> =
        silent.iter().map(|stream| stream.local_addr().expect("a socket").port()).collect();
    let (before, knocking) = (progress.latest().events.complete, Instant::now());
    let (control, lane) = (ConnectionKind::Control, ConnectionKind::Lane);
    for stranger in foreigners(control, lane).iter().chain(&at_the_supervisor(run)) {
        from.push(knock(supervisor, control, stranger).await);
    }
    for stranger in foreigners(lane, control).iter().chain(&at_builder_1(run)) {
        from.push(knock(builders[0], lane, stranger).await);
    }
    let elapsed = knocking.elapsed();
    progress.wait_for(|now| now.events.complete > before + 100).await.expect("the run goes on");
    sleep(Duration::from_millis(200)).await;
    drop(silent);
    handle.request_run_end("seen enough").await.expect("the run goes on");
    let (events, report) = finishing.await.expect("no panic");

    assert_whole(&events, 3, 2000);
    assert_eq!((report.events.complete, report.exit_code), (events.len() as u64, 0), "{}", report.verdict);
    assert_eq!(report.events.open(), Some(0));
    // Four strangers at each of two ports have another version.
    assert_eq!(report.security.version, 8, "{:?}", report.security);
    assert_eq!(report.events.triggered, report.events.inhibited + events.len() as u64);
    assert!(elapsed < Duration::from_secs(30), "{elapsed:?} until all were answered");
    let most = 3 * (6 + began.elapsed().as_secs() as usize);
    let lines = log::lines(&["refused a connection"]);
    assert!(lines.iter().all(|line| !line.contains("the peer closed")), "evb did not refuse it: {lines:?}");
    let ours = lines.iter().filter(|line| from.iter().any(|port| line.contains(&format!(":{port} "))));
    let count = ours.count();
    assert!((1..=most).contains(&count), "{count} lines for {} strangers, at most {most}", from.len());
}
