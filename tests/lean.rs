//! Builds without the features `security` and `udp`: a run on this host works, and everything that
//! the build lacks is refused. `cargo test -p evb --no-default-features --test lean`; in a full
//! build the same questions have the other answer.

use std::net::IpAddr;

use evb::{Security, block_on, network::Transport, prelude::*, role::RoleError};

#[test]
fn without_keys_only_this_host_is_allowed() {
    let elsewhere = ["192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", "0.0.0.0", "::"];
    for address in elsewhere {
        let address: IpAddr = address.parse().unwrap();
        assert_eq!(Security::None.allows(address), cfg!(feature = "security"), "{address}");
    }
    for address in ["127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"] {
        assert!(Security::None.allows(address.parse().unwrap()), "{address}");
    }
}

#[test]
fn a_transport_that_is_not_built_is_refused_at_once() {
    // Nothing listens there: with the feature, the roles look for their supervisor in vain.
    let mut source = SourceConfig::new(SourceId::new(1), "127.0.0.1:1");
    source.transport = Transport::Udp;
    source.start_timeout = std::time::Duration::from_millis(50);
    let mut builder = BuilderConfig::new(BuilderId::new(1), "127.0.0.1:1");
    builder.transport = Transport::Udp;
    builder.start_timeout = source.start_timeout;
    block_on(async {
        let faults = [
            Source::connect(source).await.expect_err("there is no supervisor"),
            Builder::connect(builder, NullSink).await.expect_err("there is no supervisor"),
        ];
        for fault in faults {
            assert_eq!(matches!(fault, RoleError::NoUdp), !cfg!(feature = "udp"), "{fault}");
        }
    })
    .unwrap();
}

#[test]
fn a_run_on_this_host_needs_neither() {
    block_on(async {
        let run = LocalSystem::new(2, 1).events(100).start(|_| NullSink).await.unwrap();
        for event in (1..=100).map(EventId::new) {
            for source in run.sources() {
                source.push(Fragment::new(event, Timestamp::new(0), "data")).await.unwrap();
            }
        }
        assert_eq!(run.finished().await.unwrap().events.complete, 100);
    })
    .unwrap();
}
