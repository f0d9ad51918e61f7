//! A registered builder that sends false records to its source.

use std::{ops::Range, time::Duration};

use bytes::BytesMut;
use evb::{
    id::{RunId, SourceId},
    source::{Source, SourceConfig},
    supervisor::{Supervisor, SupervisorConfig},
};
use evb_core::wire::{
    control::{LaneState, Welcome},
    record::{RecordHeader, encode_commit},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::{Instant, timeout},
};

use crate::{
    by_hand::ByHand,
    log,
    support::{Numbers, plan},
};

/// Bytes that a lying builder sends on one connection of the lane: a welcome, then records.
struct Lie {
    words: &'static str,
    welcome: Welcome,
    records: Vec<u8>,
}

fn commit(offset: u64, range: Option<Range<u64>>) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    encode_commit(offset, range.as_slice(), &mut bytes);
    bytes.to_vec()
}

fn lies(truth: &Welcome) -> Vec<Lie> {
    let record = |words, records| Lie { words, welcome: *truth, records };
    let lane = |words, lane| Lie { words, welcome: Welcome { lane, ..*truth }, records: vec![] };
    let held = |received, announced, committed| Some(LaneState { received, announced, committed });
    vec![
        record("grant up to byte 1099511627776", RecordHeader::Grant { end: 1 << 40 }.encode().to_vec()),
        record("commit up to byte 1099511627776", commit(1 << 40, None)),
        record(
            "commit up to byte 1099511627777",
            commit(0, Some(Range { start: 1 << 40, end: (1 << 40) + 1 })),
        ),
        record(
            "a range of bytes that is empty, or ends before it begins",
            commit(0, Some(Range { start: 9, end: 8 })),
        ),
        record("record of the unknown kind 77", [&[77][..], &[0; 63]].concat()),
        record(
            "it may not send on this connection",
            RecordHeader::Data { length: 9, offset: 0 }.encode().to_vec(),
        ),
        record("claims 65535 items", [&[4, 0, 255, 255][..], &[255; 12]].concat()),
        lane("received up to byte 50", held(50, 10, 0)),
        lane("announced up to byte 1000000", held(0, 1_000_000, 0)),
        lane("(`Welcome`) that cannot be used", None),
        Lie {
            words: "(`Welcome`) that cannot be used",
            welcome: Welcome { run_id: RunId::new(9), ..*truth },
            records: vec![],
        },
    ]
}

#[tokio::test]
async fn a_builder_that_lies_gets_its_lane_closed_each_time() {
    log::keep();
    let plan = plan(1, 1, u64::MAX);
    let bound = SupervisorConfig::new("127.0.0.1:0", plan);
    let supervisor = Supervisor::bind(bound).await.expect("loopback has a port");
    let (address, handle) = (supervisor.address().to_string(), supervisor.handle());
    let run = tokio::spawn(supervisor.run());
    let builder = ByHand::register(&address).await;
    let source = SourceId::new(1);
    let readout = Numbers { source, length: 100 };
    let source = Source::on_demand(SourceConfig::new(source, &address), readout).await.expect("a source");

    let began = Instant::now();
    for Lie { words, welcome, records } in lies(&builder.truth) {
        let mut stream = builder.let_in(&welcome).await;
        // A lie about a lane needs an announcement, so the builder waits for one.
        if !records.is_empty() {
            timeout(Duration::from_secs(5), stream.read_exact(&mut [0; 40]))
                .await
                .expect("in time")
                .expect("announced");
        }
        let _ = stream.write_all(&records).await;
        let closed = timeout(Duration::from_secs(3), stream.read_to_end(&mut Vec::new())).await;
        assert!(closed.is_ok(), "the lane stays open where the log should say `{words}`");
        let said = || !log::lines(&["the connection (lane) to ", words]).is_empty();
        for _ in 0..100 {
            if said() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(said(), "no line says `{words}`");
    }
    // The source waits longer before each connection, so a builder that never stops lying costs one
    // connection a second.
    assert!(began.elapsed() > Duration::from_secs(5), "12 connections within {:?}", began.elapsed());
    handle.request_run_end("seen enough").await.expect("the run goes on");
    // The lies have not harmed the source; the run goes on, because the builder settles no event.
    assert!(timeout(Duration::from_millis(200), source.finished()).await.is_err(), "the source left the run");
    run.abort();
}
