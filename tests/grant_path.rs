//! The time from a grant to its data: each stage is measured, on loopback in one process.

#![cfg(target_os = "linux")]

mod support;

use std::time::Duration;

use evb::ledger::RunReport;
use evb_net::{
    host::clocks,
    pacing::Transport,
    security::{PresharedKey, Security},
};
use support::{patient, plan, start_secured};

/// Number of events, which exceeds a lane's first reads; those are not samples.
const EVENTS: u64 = 2000;

/// Cost of reading the clock that is far below the limit for receive times.
const CHEAP: Duration = Duration::from_nanos(500);

async fn path_over(transport: Transport, security: Security) -> RunReport {
    let system =
        start_secured(transport, "127.0.0.1:0", &security, patient(plan(2, 2, EVENTS)), 20_000).await;
    let (_, report) = system.finish().await;
    assert_eq!(report.exit_code, 0, "{}: {:?}", report.verdict, report.problems);
    report
}

/// Asserts that every stage was measured, and that no stage is longer than the whole path.
fn assert_by_stage(report: &RunReport) {
    if clocks::reading_cost() > CHEAP {
        return evb_needs::skip(&evb_needs::Missing::new("a clock that is read in less time"));
    }
    let path = report.grant_path_us;
    println!("{path:?}");
    let stages = [path.builder_write, path.source_wake_up, path.source_answer, path.builder_wake_up];
    let measured = stages.map(|stage| stage.expect("every stage is measured").p50);
    let sum: u64 = measured.iter().sum();
    assert_eq!(path.measured(), Some(sum));
    assert!(sum <= 2 * path.first_byte.max, "{path:?}");
    let rest = path.derived_rest.expect("nothing is missing");
    assert_eq!(rest.p50, path.first_byte.p50.saturating_sub(sum), "{path:?}");
    for builder in &report.builders {
        let own = builder.grant_path_us;
        assert!(own.builder_write.is_some() && own.builder_wake_up.is_some(), "{own:?}");
        assert!(own.first_byte.max <= path.first_byte.max);
    }
    for source in &report.sources {
        let own = source.grant_path_us;
        assert!(own.source_wake_up.is_some() && own.source_answer.is_some(), "{own:?}");
    }
}

#[tokio::test]
async fn every_stage_is_measured_over_tcp() {
    assert_by_stage(&path_over(Transport::Tcp, Security::None).await);
}

#[tokio::test]
async fn every_stage_is_measured_over_udp() {
    assert_by_stage(&path_over(Transport::Udp, Security::None).await);
}

#[tokio::test]
async fn so_it_is_where_peers_share_a_key() {
    for transport in [Transport::Tcp, Transport::Udp] {
        assert_by_stage(&path_over(transport, Security::Psk(PresharedKey::new([3; 32]))).await);
    }
}
