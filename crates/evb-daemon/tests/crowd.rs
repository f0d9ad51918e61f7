//! Run control of a large system: 256 sources and 64 builders that consist of a control link only,
//! each of which reports as a real one does. The test requests status, history, metrics and page,
//! and prints sizes and times (`--nocapture`).
#![allow(clippy::unwrap_used)] // an error here is a failed test

use std::{
    fmt::Write as _,
    io::{Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use evb_core::{
    id::{BuilderId, EventId, Peer, SourceId},
    wire::control::{
        Begun, BuilderReport, Completions, Control, Heartbeat, Hello, LaneReport, Live, Message, Ready,
        Report, RoleReport, SourceReport,
    },
};
use evb_net::{
    clock,
    control::{ControlLink, connect},
};
use serde_json::Value;

const SOURCES: u16 = 256;
const BUILDERS: u16 = 64;

/// Time that an answer may take on a busy machine; the printed times are the result of this test.
const PATIENCE: Duration = Duration::from_secs(2);

/// The process of the supervisor, which is killed when this value is dropped.
struct Leader(Child);

impl Drop for Leader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn lead(dir: &std::path::Path, ports: &[u16]) -> Leader {
    let mut text = format!(
        "[supervisor]\nlisten = \"127.0.0.1:{}\"\ntrigger = {{ kind = \"periodic\", rate = \"500 Hz\" }}\n\
         [control]\nlisten = \"127.0.0.1:{}\"\n[security]\nmode = \"none\"\n",
        ports[0], ports[1]
    );
    let _ = write!(
        text,
        "[[source]]\nids = \"1-{SOURCES}\"\ninput = {{ kind = \"generator\", size = \"1 kB\" }}\n\
         [[builder]]\nids = \"1-{BUILDERS}\"\nlisten = \"10.0.0.{{id}}:7101\"\nsink = \"null\"\n"
    );
    let path = dir.join("evb.toml");
    std::fs::write(&path, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evbd"));
    command.args(["run", "--quiet", "--role", "supervisor"]).arg(path);
    Leader(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Plays a source or builder that settles its events at once.
async fn stub(supervisor: String, peer: Peer) {
    let hello = Hello {
        listen: "127.0.0.1:1".to_owned(),
        max_fragment: 1000,
        boot_id: evb_net::host::boot_id(),
        ..Hello::new(peer, Peer::Supervisor)
    };
    let until = Instant::now() + Duration::from_secs(20);
    let mut link = loop {
        match connect(&supervisor, None, &hello).await {
            Ok((link, _)) => break link,
            Err(error) => assert!(Instant::now() < until, "{peer}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let mut reports = tokio::time::interval(Duration::from_secs(1));
    let mut done = 0;
    loop {
        tokio::select! {
            message = link.recv() => match message {
                Ok(message) => answer(&mut link, peer, message, &mut done),
                Err(_) => return,
            },
            _ = reports.tick() => say(&mut link, Message::Report(so_far(peer, done))),
        }
        if link.flush().await.is_err() {
            return;
        }
    }
}

fn say(link: &mut ControlLink, message: Message) {
    // An error means that the supervisor has gone, which the next read notices.
    let _ = link.send(&Control { message: Some(message) });
}

fn answer(link: &mut ControlLink, peer: Peer, message: Control, done: &mut u64) {
    match message.message {
        Some(Message::Roster(_)) if matches!(peer, Peer::Source(_)) => say(link, Message::Ready(Ready {})),
        Some(Message::Begin(_)) => say(link, Message::Begun(Begun::default())),
        Some(Message::Assignments(assignments)) => {
            let mut completions = Completions { before: *done, ..Completions::default() };
            let mut last = EventId::default();
            for (event, _) in assignments.events().unwrap() {
                completions.add(&mut last, event);
                *done += 1;
            }
            say(link, Message::Completions(completions));
        }
        Some(Message::Heartbeat(beat)) => {
            let sent_ns = clock::now().as_nanos();
            let answer = Heartbeat { sent_ns, echo_ns: beat.sent_ns, ..Heartbeat::default() };
            say(link, Message::Heartbeat(answer));
        }
        _ => {}
    }
}

/// Returns a report in which no counter is zero.
fn so_far(peer: Peer, done: u64) -> Report {
    let many = 1_000_000_000 + done;
    let live = Live {
        backlog_bytes: many,
        latency: (20..60).flat_map(|bucket| [bucket, done + bucket]).collect(),
        since_commit_ns: many,
        disk_free_bytes: many,
        disk_bytes: many * 10,
        processor_ns: many,
        memory_bytes: many,
        ..Live::default()
    };
    let lane = |source| LaneReport {
        source: u32::from(source),
        fragments: many,
        payload_bytes: many,
        last: 100 + u64::from(source),
        last_by_ns: many,
        ..LaneReport::default()
    };
    let report = match peer {
        Peer::Builder(_) => RoleReport::Builder(BuilderReport {
            complete: done,
            written: done,
            payload_bytes: done * 256_000,
            lanes: (1..=SOURCES).map(lane).collect(),
            ..BuilderReport::default()
        }),
        _ => RoleReport::Source(SourceReport { pushed: many, sent_bytes: many, ..SourceReport::default() }),
    };
    Report { report: Some(report), live: Some(live) }
}

/// Requests `path`; returns the body of the answer, and the time until the answer was complete.
fn get(port: u16, path: &str) -> (String, Duration) {
    let since = Instant::now();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    (answer.split_once("\r\n\r\n").unwrap().1.to_owned(), since.elapsed())
}

fn status(port: u16) -> Value {
    serde_json::from_str(&get(port, "/v1/status").0).unwrap()
}

fn post(port: u16, command: &str) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = "Host: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: 2";
    write!(stream, "POST /v1/{command} HTTP/1.1\r\n{head}\r\n\r\n{{}}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_crowd_is_shown_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let ports = evb_needs::free_ports(2);
    let _leader = lead(dir.path(), &ports);
    let supervisor = format!("127.0.0.1:{}", ports[0]);
    let peers = (1..=SOURCES).map(|id| Peer::Source(SourceId::new(id)));
    let peers = peers.chain((1..=BUILDERS).map(|id| Peer::Builder(BuilderId::new(id))));
    let stubs: Vec<_> = peers.map(|peer| tokio::spawn(stub(supervisor.clone(), peer))).collect();
    let looks = tokio::task::spawn_blocking(move || look(ports[1]));
    looks.await.unwrap();
    stubs.iter().for_each(tokio::task::JoinHandle::abort);
}

fn look(port: u16) {
    let until = Instant::now() + Duration::from_secs(60);
    let wait = |what: &str, is: &dyn Fn(&Value) -> bool| loop {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() && is(&status(port)) {
            return;
        }
        assert!(Instant::now() < until, "never {what}");
        std::thread::sleep(Duration::from_millis(100));
    };
    wait("ready", &|status| status["ready"] == true);
    post(port, "start");
    let reported = |status: &Value, role: &str, count: u16| {
        let peers = status["survey"][role].as_array().unwrap();
        peers.len() == usize::from(count) && peers.iter().all(|peer| peer["live"].is_object())
    };
    wait("reported", &|status| {
        reported(status, "sources", SOURCES)
            && reported(status, "builders", BUILDERS)
            && status["survey"]["events"]["complete"].as_u64() > Some(1000)
    });
    for path in ["/v1/status", "/v1/history?after=0", "/metrics", "/"] {
        // After a pause of 600 ms, the previous rendering is too old, so each answer is rendered
        // again.
        let asked = (0..5).map(|_| {
            std::thread::sleep(Duration::from_millis(600));
            get(port, path)
        });
        let asked: Vec<_> = asked.collect();
        let mut times: Vec<_> = asked.iter().map(|(_, took)| *took).collect();
        times.sort();
        println!(
            "{path}: {} bytes, {:?} (median of five), at most {:?}",
            asked[4].0.len(),
            times[2],
            times[4]
        );
        assert!(times[2] < PATIENCE, "{path}: {times:?}");
    }
    let seen = status(port);
    assert!(seen["problems"].as_array().unwrap().len() <= 21, "totals and the worst, not everybody");
    assert_eq!(seen["survey"]["sources"][0]["last"], 64 * 101, "added up over the builders");
}
