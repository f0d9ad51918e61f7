//! A small MTU and other devices than the loopback. Each test has a network namespace of its own,
//! so it needs root.

use evb_needs::{Missing, granted, programs, run};

use super::{sys_namespace::leave_network, *};
use crate::pacing::GsoState;

/// A network namespace of the calling thread, with a virtual cable from `cable0` (10.78.0.1) to
/// `cable1` in the same namespace. `cable1` never answers, so packets that leave through `cable0`
/// are lost.
pub(super) struct Place;

impl Place {
    /// Moves the calling thread to a new network namespace. If this process may not do so, or lacks
    /// one of the programs, says so and returns `None`.
    pub(super) fn enter(names: &[&str]) -> Option<Self> {
        granted(programs(names).and_then(|()| Self::laid()))
    }

    fn laid() -> Result<Self, Missing> {
        leave_network()
            .map_err(|error| Missing::new("a network namespace of its own, as root").because(error))?;
        for line in [
            "ip link set lo up",
            "ip link add cable0 type veth peer name cable1",
            "ip address add 10.78.0.1/24 dev cable0",
            "ip link set cable0 up",
            "ip link set cable1 up",
            "ip neighbour replace 10.78.0.2 lladdr 02:00:00:00:00:02 dev cable0",
        ] {
            run(line)?;
        }
        Ok(Self)
    }
}

fn source() -> DatagramSocket {
    let (local, peer) = ("10.78.0.1:0".parse().unwrap(), "10.78.0.2:9".parse().unwrap());
    open(local, Some(peer), &UdpOptions::default()).unwrap()
}

#[tokio::test]
async fn an_mtu_that_shrinks_is_reported_as_such_and_stops_no_trains() {
    let Some(_place) = Place::enter(&["ip"]) else { return };
    let mut source = source();
    let train = pattern(10 * 1472);
    let slices = [IoSlice::new(&train)];
    assert_eq!(source.mtu().unwrap(), 1500);
    assert_eq!(source.send_train(&slices, 1472, None).unwrap(), train.len());
    run("ip link set cable0 mtu 1000").unwrap();
    for length in [train.len(), 1472] {
        let refused = source.send_train(&[IoSlice::new(&train[..length])], 1472, None);
        assert!(matches!(refused, Err(SendError::TooLarge)), "{refused:?}");
    }
    assert!(source.gso().is_on(), "that is no reason not to cut trains");
    assert_eq!(source.mtu().unwrap(), 1000);
    assert_eq!(source.send_train(&slices, 972, None).unwrap(), train.len());
    assert!(matches!(source.send_train(&slices, 973, None), Err(SendError::TooLarge)));
    let counts = source.counts().unwrap().trains;
    assert_eq!((counts.sent, counts.too_large_for_path, counts.other), (2, 0, 0));
}

#[tokio::test]
async fn a_device_without_offloads_is_served_too() {
    let Some(_place) = Place::enter(&["ip", "ethtool"]) else { return };
    let mut source = source();
    run("ethtool -K cable0 tx off").unwrap();
    let train = pattern(10 * 1472);
    assert_eq!(source.send_train(&[IoSlice::new(&train)], 1472, None).unwrap(), train.len());
    let counts = source.counts().unwrap().trains;
    println!("without offloads: {:?}, {counts:?}", source.gso());
    // Linux before 6.11 refuses to cut trains for a device without checksum offload; later versions
    // cut them in software.
    match source.gso() {
        GsoState::On => assert_eq!((counts.sent, counts.uncut), (1, 0)),
        GsoState::Paused { .. } => assert_eq!((counts.sent, counts.uncut), (10, 10)),
        GsoState::Off => panic!("never for life"),
    }
}
