//! Facts about the paths to peers, from the kernel and by ping.

use std::{net::IpAddr, time::Duration};

use evb_net::host::{
    Fact, Unavailable,
    clocks::Lateness,
    echo::{Echo, Pinger},
    link::Link,
    sockets,
};

use super::super::{
    facts::{Echoes, PathFacts},
    peers::Peer,
};

/// Number of small pings for each peer.
const PINGS: usize = 20;
/// Number of pings without an answer after which the peer counts as silent.
const SILENT_PINGS: usize = 3;
/// Time to wait for the answer to a ping, far longer than a round trip in any local network.
const PATIENCE: Duration = Duration::from_millis(200);
/// Size of a small ping in bytes, which equals the size of a grant.
const SMALL: usize = 84;
/// Number of silent peers after which no further peers are pinged, because each silent peer takes
/// most of a second.
const MOST_SILENT: usize = 8;

/// Gathers the facts about the paths to all peers. After some silent ones, the others are not
/// asked, because each costs time.
pub(super) fn paths(peers: &[Peer], links: &[Link]) -> Vec<PathFacts> {
    let mut silent = 0;
    let mut found = Vec::with_capacity(peers.len());
    for peer in peers {
        let echoes = if silent < MOST_SILENT {
            echoes(peer.address)
        } else {
            Err(Unavailable::new(format!(
                "not asked, because {silent} peers before it were silent; look at those first, or ask this one alone with `evbd doctor --peer {}`",
                peer.address
            )))
        };
        let path = path(peer, links, echoes);
        silent += usize::from(!path.answers());
        found.push(path);
    }
    found
}

/// Gathers the facts about the path to a peer.
fn path(peer: &Peer, links: &[Link], echoes: Fact<Echoes>) -> PathFacts {
    let device = peer.route.as_ref().map_err(Clone::clone).and_then(|route| {
        let link = links.iter().find(|link| link.index == route.device);
        link.map(|link| link.name.clone()).ok_or_else(|| {
            Unavailable::new("the network device on the way to it is gone; run `evbd doctor` again")
        })
    });
    let mut path = PathFacts {
        who: peer.who(),
        address: peer.address,
        is_here: peer.is_here(),
        device,
        mtu: sockets::path_mtu(peer.address),
        echoes,
        full_size: None,
    };
    if path.answers()
        && let Ok(mtu) = path.mtu
    {
        path.full_size = Some(full_size(peer.address, mtu));
    }
    path
}

/// Pings an address, and returns how long the answers took. A silent address is given up early.
fn echoes(to: IpAddr) -> Fact<Echoes> {
    let mut pinger = Pinger::new(to)?;
    let mut times = Vec::new();
    let mut sent = 0;
    while sent < PINGS && (sent < SILENT_PINGS || !times.is_empty()) {
        sent += 1;
        match pinger.ping(SMALL, PATIENCE) {
            Ok(Echo::Answered(time)) => times.push(time),
            Ok(Echo::Silence | Echo::TooLarge) => {}
            Err(error) => return Err(Unavailable::from_io(format_args!("ping to {to}"), &error)),
        }
    }
    Ok(Echoes { sent, times: Lateness::of(times) })
}

/// Pings with a packet of the path's full MTU. If the first ping gets no answer, sends a second
/// one, because a packet may be lost by chance.
fn full_size(to: IpAddr, mtu: u32) -> Fact<Echo> {
    let mut pinger = Pinger::new(to)?;
    let mut ask = || {
        let echo = pinger.ping(usize::try_from(mtu).unwrap_or(usize::MAX), PATIENCE);
        echo.map_err(|error| Unavailable::from_io(format_args!("ping of {mtu} bytes to {to}"), &error))
    };
    match ask()? {
        Echo::Silence => ask(),
        echo => Ok(echo),
    }
}
