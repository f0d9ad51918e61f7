//! A router on the path whose next link takes smaller packets than the sender's link.

use std::{io::IoSlice, net::SocketAddr, time::Duration};

use evb_net::udp::{UdpOptions, open};

use crate::place::{OURS, Place, THEIRS, run, skip};

/// Creates a virtual cable to a router whose next link takes packets of at most 1000 B.
fn laid(test: &str) -> Option<Place> {
    let mut place = Place::enter(test)?;
    let mut route = || {
        place.lay_cable(1)?;
        for line in [
            "ip link add far0 mtu 1000 type veth peer name far1 mtu 1000",
            "ip link set far1 up",
            "ip address add 10.79.0.1/24 dev far0",
            "ip link set far0 up",
            "ip neighbour replace 10.79.0.9 lladdr 02:00:00:00:00:09 dev far0",
            "sysctl -q -w net.ipv4.ip_forward=1",
        ] {
            place.run_there(line)?;
        }
        run(&format!("ip route add 10.79.0.0/24 via {THEIRS}"))
    };
    if let Err(missing) = route() {
        skip(test, &missing);
        return None;
    }
    Some(place)
}

#[tokio::test]
async fn a_router_that_drops_for_size_is_counted_and_believed_of_the_path() {
    const TEST: &str = "a_router_that_drops_for_size_is_counted_and_believed_of_the_path";
    let Some(_place) = laid(TEST) else { return };
    let (local, peer): (SocketAddr, SocketAddr) = ((OURS, 0).into(), ([10, 79, 0, 9], 9).into());
    let mut source = open(local, Some(peer), &UdpOptions::default()).unwrap();
    assert_eq!(source.mtu().unwrap(), 1500);
    let train = [0x5a; 5 * 1472];
    let mut send = |segment: u16| {
        let sent = source.send_train(&[IoSlice::new(&train)], segment, None);
        assert_eq!(sent.unwrap(), train.len(), "a train that fits the device is sent after a report, too");
        std::thread::sleep(Duration::from_millis(50));
    };
    send(1472);
    // This send receives the router's report about the first train.
    send(972);
    // This send receives no report, because the second train passed the router.
    send(972);
    let counts = source.counts().unwrap();
    println!("{counts:?}, path {:?}", source.mtu());
    assert_eq!((counts.trains.sent, counts.trains.too_large_for_path, counts.trains.other), (3, 1, 0));
    assert_eq!(source.mtu().unwrap(), 1000);
    assert!(source.gso().is_on());
}
