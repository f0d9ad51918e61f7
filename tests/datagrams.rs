//! Whole systems with lanes over datagrams, on loopback in one process: the systems behave as over
//! TCP.

mod support;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

use evb::{
    builder::{Builder, BuilderConfig},
    id::{BuilderId, SourceId},
    ledger::RunReport,
    role::RoleError,
    sink::NullSink,
    supervisor::{RunPlan, TriggerKind},
    units::Frequency,
};
use evb_core::{
    id::Peer,
    wire::{
        control::{Hello, Reason},
        preamble::ConnectionKind,
    },
};
use evb_net::{
    handshake::{HandshakeError, connect_handshake},
    pacing::Transport,
};
use support::{assert_exact, begin_over, patient, start_over};
use tokio::net::TcpStream;

fn plan(sources: u16, builders: u16, events: u64) -> RunPlan {
    patient(support::plan(sources, builders, events))
}

/// Asserts that the run is complete, and that its data came in datagrams of 1500 B packets.
fn assert_complete(report: &RunReport, events: u64, sources: u64) {
    assert_eq!(report.exit_code, 0, "{}: {:?}", report.verdict, report.problems);
    assert_eq!((report.events.complete, report.events.open()), (events, Some(0)));
    let committed: u64 = report.sources.iter().map(|source| source.committed).sum();
    assert_eq!(committed, events * sources, "sources forget what is safe, and only that");
    let datagrams = report.network.datagrams;
    assert!(datagrams.received >= report.bytes.payload / 1432, "{datagrams:?}");
    assert_eq!((datagrams.damaged, datagrams.foreign), (0, 0), "{datagrams:?}");
}

#[tokio::test]
async fn builds_tiny_small_and_large_fragments_exactly() {
    // Lengths of fragments vary by up to 96 bytes; some fragments are empty.
    for (sources, builders, length, events) in
        [(1, 1, 0, 300), (4, 2, 1000, 1000), (3, 3, 20_000, 200), (2, 1, 1_048_576, 10)]
    {
        let system = start_over(Transport::Udp, "127.0.0.1:0", plan(sources, builders, events), length).await;
        let (built, report) = system.finish().await;
        assert_complete(&report, events, sources.into());
        assert_exact(&built, sources, length);
    }
}

#[tokio::test]
async fn so_it_does_over_ipv6() {
    let Some(()) = evb_needs::granted(evb_needs::ipv6()) else { return };
    let system = start_over(Transport::Udp, "[::1]:0", plan(2, 2, 200), 10_000).await;
    let (built, report) = system.finish().await;
    assert_complete(&report, 200, 2);
    assert_exact(&built, 2, 10_000);
}

#[tokio::test]
async fn a_lane_by_the_other_transport_is_refused_with_the_reason() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let rate = Frequency::from_hertz(50.0).expect("that is a rate");
        let plan = RunPlan { trigger: TriggerKind::Periodic { rate }, ..plan(1, 1, u64::MAX) };
        let run_id = plan.run_id;
        let mut system = start_over(transport, "127.0.0.1:0", plan, 100).await;
        // During the run, source 1, which has a lane already, asks for a lane with the wrong
        // transport.
        let first = system.events[0].recv().await;
        assert!(first.is_some_and(|event| event.is_complete()));
        let (source, builder) = (Peer::Source(SourceId::new(1)), Peer::Builder(BuilderId::new(1)));
        let datagrams = transport == Transport::Tcp;
        let hello = Hello { run_id, datagrams, ..Hello::new(source, builder) };
        let mut stream = TcpStream::connect(system.builders[0].address()).await.expect("the builder listens");
        match connect_handshake(&mut stream, ConnectionKind::Lane, &hello).await {
            Err(HandshakeError::Refused(refusal)) => {
                assert_eq!(refusal.reason, Reason::Configuration);
                assert!(refusal.detail.contains("set the same `network.transport`"), "{}", refusal.detail);
            }
            other => panic!("{other:?}"),
        }
        system.sources[0].request_run_end("enough");
        let (_, report) = system.finish().await;
        assert_eq!(report.exit_code, 0, "{}", report.verdict);
    }
}

#[tokio::test]
async fn a_udp_port_that_is_taken_is_said_before_the_run() {
    // The kernel gives this port to no socket that asks for any, so it stays free for TCP.
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, evb_needs::free_ports(1)[0]));
    let taken = UdpSocket::bind(address).expect("the port is free");
    let system = begin_over(Transport::Udp, "127.0.0.1:0", plan(1, 1, 1)).await;
    let config = BuilderConfig {
        listen: address.to_string(),
        transport: Transport::Udp,
        ..BuilderConfig::new(BuilderId::new(1), &system.address)
    };
    let error = Builder::connect(config, NullSink).await.expect_err("its port is taken");
    assert!(matches!(error, RoleError::Listen { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains(&address.to_string()) && said.contains("UDP"), "{said}");
    drop(taken);
}
