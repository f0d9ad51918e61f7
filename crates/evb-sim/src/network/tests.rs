use evb_core::{
    id::{Peer, SourceId},
    rng::Rng,
    time::Instant,
};

use super::{Network, NetworkModel};

pub(super) fn two_hosts(model: NetworkModel, seed: u64) -> Network {
    let program = model.hosts.source.clone();
    let host = |id| (Peer::Source(SourceId::new(id)), program.clone());
    Network::new(model.clone(), vec![host(1), host(2)], seed)
}

/// Transfers bytes from host 0 to host 1. Returns the time at which the last byte arrives, and the
/// number of retransmitted segments.
fn transfer(loss: f64, bytes: &[u8], seed: u64) -> (Instant, u64) {
    let mut network = two_hosts(NetworkModel { loss, ..NetworkModel::default() }, seed);
    let (from, to) = network.connect(0, 1);
    network.outgoing(from).extend_from_slice(bytes);
    network.flush(from);
    let mut received = Vec::new();
    while received.len() < bytes.len() {
        assert_eq!(network.advance(), Some(1), "only the receiver has anything to do");
        received.extend_from_slice(&network.incoming(to).split());
    }
    assert!(received == bytes, "other bytes arrived than were sent");
    (network.now(), network.retransmits().0)
}

#[test]
fn bytes_arrive_whatever_is_lost() {
    let mut resent = 0;
    for seed in 0..50 {
        let mut rng = Rng::new(seed);
        let bytes: Vec<u8> = (0..100_000 + rng.below(100_000)).map(|_| rng.next_u64() as u8).collect();
        resent += transfer(0.05 * rng.uniform(), &bytes, seed).1;
    }
    assert!(resent > 50, "{resent}");
}

/// Checks that one stream uses nearly the whole rate of 1 Gbit/s. Headers, gaps and slow start take
/// the rest.
#[test]
fn one_stream_fills_the_link() {
    let (end, resent) = transfer(0.0, &vec![1; 11_600_000], 1);
    let goodput = 11_600_000.0 * 8.0 / end.as_nanos() as f64;
    assert!((0.90..0.9415).contains(&goodput), "{goodput} Gbit/s, {resent} segments retransmitted");
}
