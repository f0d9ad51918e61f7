//! A supervisor that lies: sources and builders leave it with an error.

use std::{sync::Arc, time::Duration};

use bytes::BytesMut;
use evb::{
    builder::{Builder, BuilderConfig},
    id::{BuilderId, RunId, SourceId},
    role::{RoleError, RunOutcome},
    sink::NullSink,
    source::{Source, SourceConfig},
};
use evb_core::wire::{
    control::{Assignments, BuilderAddress, Control, Decisions, Message, Roster, RunParameters, Welcome},
    preamble::ConnectionKind,
};
use evb_net::{
    control::encode_into,
    handshake::{accept_handshake, reply, welcomed},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::timeout,
};

use crate::support::Numbers;

/// Messages of a supervisor, and a part of the error with which a peer leaves.
struct Lie {
    parameters: RunParameters,
    messages: Vec<u8>,
    /// True if the messages are repeated without end.
    endless: bool,
    words: &'static str,
}

fn honest() -> RunParameters {
    RunParameters {
        slots: 4,
        heartbeat_ns: 100_000_000,
        deadline_ns: 1_000_000_000,
        ..RunParameters::default()
    }
}

fn roster(sources: u32, builders: u32) -> Roster {
    let address = |id| BuilderAddress { id, listen: "127.0.0.1:9".to_owned(), ..BuilderAddress::default() };
    let sources: Vec<u32> = (1..=sources).collect();
    let max_fragment = vec![1000; sources.len()];
    Roster {
        version: 1,
        up: sources.clone(),
        sources,
        builders: (1..=builders).map(address).collect(),
        max_fragment,
        ..Roster::default()
    }
}

fn lie(messages: impl IntoIterator<Item = Message>, words: &'static str) -> Lie {
    let mut bytes = BytesMut::new();
    for message in messages {
        encode_into(&Control { message: Some(message) }, &mut bytes);
    }
    Lie { parameters: honest(), messages: bytes.to_vec(), endless: false, words }
}

fn noise(bytes: &[u8], words: &'static str) -> Lie {
    Lie { messages: bytes.to_vec(), ..lie([], words) }
}

/// Returns lies that every peer rejects.
fn to_anybody() -> Vec<Lie> {
    let parameters = |parameters| Lie { parameters, ..lie([], "(`Welcome`) that cannot be used") };
    vec![
        parameters(RunParameters { slots: 0, ..honest() }),
        parameters(RunParameters { slots: u32::MAX, ..honest() }),
        parameters(RunParameters { heartbeat_ns: 0, ..honest() }),
        parameters(RunParameters { decided: u64::MAX, ..honest() }),
        noise(&[255; 64], "a message of 4294967295 bytes"),
        noise(&[8, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255], "not a control message"),
        noise(b"HTTP/1.1 400 Bad Request\r\n\r\n", "a message of"),
    ]
}

fn to_a_source() -> Vec<Lie> {
    let decisions = |first, runs: &[u32], words| {
        lie(
            [Message::Roster(roster(1, 1)), Message::Decisions(Decisions { first, runs: runs.to_vec() })],
            words,
        )
    };
    let mut endless = decisions(1, &[65_536, 3], "more events are assigned than builders could have slots");
    let batch = |n: u64| Message::Decisions(Decisions { first: 1 + n * 65_536, runs: vec![65_536, 3] });
    endless.messages.extend_from_slice(&lie((1..400).map(batch), "").messages);
    vec![
        lie([Message::Roster(roster(1, 1100))], "more entries than any run needs"),
        lie(
            [Message::Roster(Roster {
                builders: vec![BuilderAddress {
                    id: 70_000,
                    listen: String::new(),
                    ..BuilderAddress::default()
                }],
                ..roster(1, 1)
            })],
            "its list of builders has id 70000",
        ),
        decisions(1, &[1, 9], "not in its list of builders"),
        decisions(0, &[1, 3], "event ids start at 1"),
        decisions(1, &[1], "odd number"),
        decisions(1, &[0, 3], "a decision covers no events"),
        decisions(1, &[1, u32::MAX - 1], "a verdict is unknown"),
        decisions(1, &[u32::MAX, 3], "more events than one message may cover"),
        decisions(u64::MAX, &[2, 3], "event ids overflow"),
        decisions(1, &[1, 0].repeat(200_000), "more events than one message may cover"),
        endless,
    ]
}

fn to_a_builder() -> Vec<Lie> {
    let assignments = |roster_version, events: Vec<u64>, times: usize, words| {
        let assignments =
            Assignments { roster_version, events, triggered_ns: vec![1; times], ..Assignments::default() };
        lie([Message::Roster(roster(1, 1)), Message::Assignments(assignments)], words)
    };
    let later = |sources, up| Message::Roster(Roster { version: 2, up, ..roster(sources, 1) });
    let mut flood = assignments(1, vec![1; 4], 4, "it has not confirmed");
    let more = Assignments {
        roster_version: 1,
        events: vec![5, 1, 1, 1],
        triggered_ns: vec![1; 4],
        ..Assignments::default()
    };
    flood.messages.extend_from_slice(&lie([Message::Assignments(more)], "").messages);
    flood.endless = true;
    vec![
        lie([Message::Roster(roster(4100, 1))], "too many sources"),
        lie([Message::Roster(roster(60_000, 1))], "too many sources"),
        lie(
            [Message::Roster(Roster { sources: vec![2, 1], max_fragment: vec![1, 1], ..roster(1, 1) })],
            "not ascending",
        ),
        lie([Message::Roster(Roster { max_fragment: vec![], ..roster(1, 1) })], "max_fragment"),
        lie([Message::Roster(Roster { sources: vec![70_000], ..roster(1, 1) })], "above 65535"),
        lie([Message::Roster(roster(2, 1)), later(1, vec![1])], "have changed"),
        lie([Message::Roster(roster(1, 1)), later(1, vec![5])], "not in the run"),
        assignments(9, vec![1], 1, "version 9 of its list of sources"),
        assignments(1, vec![1, 1], 1, "differ in number"),
        assignments(1, vec![0], 1, "(`Assignments`) that cannot be used"),
        assignments(1, vec![1; 70_000], 70_000, "too many"),
        assignments(1, vec![1; 5], 5, "it assigned 5 events at once to a builder that has room for 4"),
        flood,
    ]
}

/// Plays a supervisor that tells `lie` to one peer.
async fn play(listener: TcpListener, lie: Lie) {
    let (mut stream, _) = listener.accept().await.expect("the peer comes");
    accept_handshake(&mut stream, ConnectionKind::Control).await.expect("the peer says hello");
    let welcome = Welcome {
        epoch: 5,
        run: 1,
        run_id: RunId::new(5),
        parameters: Some(lie.parameters),
        ..Welcome::default()
    };
    reply(&mut stream, ConnectionKind::Control, &welcomed(welcome)).await.expect("the answer is sent");
    while stream.write_all(&lie.messages).await.is_ok() && lie.endless {}
    // The peer's messages are read and ignored.
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

async fn stage(lie: Lie) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a port");
    let address = listener.local_addr().expect("a bound socket").to_string();
    tokio::spawn(play(listener, lie));
    address
}

fn check(
    who: &str,
    words: &str,
    ended: Result<Result<RunOutcome, Arc<RoleError>>, tokio::time::error::Elapsed>,
) {
    let ended = ended.unwrap_or_else(|_| panic!("the {who} stays where it should say `{words}`"));
    let error = ended.expect_err("a lie is no end of a run").to_string();
    assert!(error.contains(words), "the {who} says `{error}` and not `{words}`");
    assert!(error.contains("supervisor"), "whose fault: {error}");
}

const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_source_leaves_a_supervisor_that_lies() {
    for lie in to_anybody().into_iter().chain(to_a_source()) {
        let words = lie.words;
        let source = SourceId::new(1);
        let config = SourceConfig::new(source, stage(lie).await);
        let source = Source::on_demand(config, Numbers { source, length: 10 }).await.expect("the peer joins");
        check("source", words, timeout(PATIENCE, source.finished()).await);
    }
}

#[tokio::test]
async fn a_builder_leaves_a_supervisor_that_lies() {
    for lie in to_anybody().into_iter().chain(to_a_builder()) {
        let words = lie.words;
        let config = BuilderConfig::new(BuilderId::new(1), stage(lie).await);
        let builder = Builder::connect(config, NullSink).await.expect("the peer joins");
        check("builder", words, timeout(PATIENCE, builder.finished()).await);
    }
}
