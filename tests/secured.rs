//! Whole systems whose peers share a key, over loopback in one process, and the treatment of peers
//! with another key or none, and of changed bytes.

mod support;
#[path = "secured/relay.rs"]
mod relay;
#[path = "secured/lane.rs"]
mod lane;

use std::time::Duration;

use evb::{
    PresharedKey, Security,
    builder::{Builder, BuilderConfig},
    id::{BuilderId, SourceId},
    role::RoleError,
    sink::NullSink,
    source::{Source, SourceConfig},
    supervisor::RunPlan,
};
use evb_net::pacing::Transport;
use relay::{Flip, Relay};
use support::{Numbers, assert_exact, begin_secured, content, start_secured};

fn psk(byte: u8) -> Security {
    Security::Psk(PresharedKey::new([byte; 32]))
}

fn plan(sources: u16, builders: u16, events: u64) -> RunPlan {
    support::patient(support::plan(sources, builders, events))
}

#[tokio::test]
async fn builds_tiny_small_and_large_fragments_exactly() {
    for transport in [Transport::Tcp, Transport::Udp] {
        for (sources, builders, length, events) in
            [(1, 1, 0, 300), (4, 2, 1000, 1000), (3, 3, 20_000, 200), (2, 1, 1_048_576, 10)]
        {
            let plan = plan(sources, builders, events);
            let system = start_secured(transport, "127.0.0.1:0", &psk(1), plan, length).await;
            let (built, report) = system.finish().await;
            assert_eq!(report.exit_code, 0, "{}: {:?}", report.verdict, report.problems);
            assert_eq!((report.events.complete, report.events.open()), (events, Some(0)));
            assert_exact(&built, sources, length);
        }
    }
}

#[tokio::test]
async fn who_has_another_key_or_none_is_told_so() {
    // The other side may be a stranger, so peers try on for their whole time, of which they have
    // little here.
    let start_timeout = Duration::from_secs(1);
    for (ours, theirs, words) in [
        (psk(1), psk(2), "copy the same key_file"),
        (psk(1), Security::None, "mode = \"psk\" and key_file"),
        (Security::None, psk(1), "or neither"),
    ] {
        let mut system = begin_secured(Transport::Tcp, "127.0.0.1:0", &ours, plan(1, 1, 50)).await;
        let began = std::time::Instant::now();
        let id = SourceId::new(1);
        let config = SourceConfig {
            security: theirs.clone(),
            start_timeout,
            ..SourceConfig::new(id, &system.address)
        };
        let refused = Source::connect(config).await.expect_err("a refusal");
        assert!(matches!(refused, RoleError::Join(_)) && refused.to_string().contains(words), "{refused}");
        let config = BuilderConfig {
            security: theirs,
            start_timeout,
            ..BuilderConfig::new(BuilderId::new(1), &system.address)
        };
        let refused = Builder::connect(config, NullSink).await.expect_err("a refusal");
        assert!(refused.to_string().contains(words), "{refused}");
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());

        // Peers with a wrong key or without a key do not affect the run.
        let config = SourceConfig { security: ours, ..SourceConfig::new(id, &system.address) };
        let readout = Numbers { source: id, length: 100 };
        system.sources.push(Source::on_demand(config, readout).await.expect("the source joins"));
        let (built, report) = system.finish().await;
        assert_eq!((built.len(), report.exit_code), (50, 0), "{}", report.verdict);
        let counted = report.security;
        assert!(counted.keys >= 2 && counted.refused == counted.keys, "{counted:?}");
    }
}

#[tokio::test]
async fn who_changes_bytes_of_a_control_connection_ends_it_and_spoils_nothing() {
    for (is_there, byte) in [(true, 20), (true, 170), (false, 30), (false, 300)] {
        let mut system = begin_secured(Transport::Tcp, "127.0.0.1:0", &psk(1), plan(2, 1, 2000)).await;
        let supervisor = system.address.parse().expect("an address");
        let relay = Relay::to(supervisor, Some(Flip { is_there, byte })).await;
        for (source, address) in [(1, supervisor), (2, relay.address)] {
            let source = SourceId::new(source);
            let config = SourceConfig { security: psk(1), ..SourceConfig::new(source, address.to_string()) };
            let readout = Numbers { source, length: 500 };
            system.sources.push(Source::on_demand(config, readout).await.expect("the source joins"));
        }
        let (built, report) = system.finish().await;
        assert_eq!(relay.flips(), 1);
        assert_eq!(report.events.open(), Some(0), "{}", report.verdict);
        for event in &built {
            for fragment in event.fragments() {
                let length = 500 + event.id.number() as usize % 97;
                assert!(fragment.payload == content(fragment.source, event.id, length));
            }
        }
    }
}
