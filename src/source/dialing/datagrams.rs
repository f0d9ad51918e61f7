//! Begins the datagrams of a lane whose handshake over TCP is done.

use std::{io, net::SocketAddr};

use evb_core::{session::Dial, units::Rate, wire::control::Welcome};
use evb_net::{
    control::ConnectError,
    handshake::round_trip,
    handshake::{Channel, HandshakeError},
    host::link,
    lane::datagrams::{SourceDatagrams, probe_tagged},
    security::DatagramTags,
    udp,
};
use evb_shaper::role::LanePath;

use super::{Connected, Dialing, not_set_up};

/// Opens a datagram socket besides the TCP connection, and finds a path for its datagrams.
pub(super) async fn begin(
    dialing: &Dialing,
    dial: &Dial,
    (channel, peer): (Channel, SocketAddr),
    welcome: Welcome,
    rate: Option<Rate>,
) -> Result<Connected, ConnectError> {
    let unreachable = |reason| ConnectError::Unreachable { address: dial.address.clone(), reason };
    let unready = |reason: io::Error| unreachable(not_set_up(&reason));
    let (stream, session) = channel.into_parts();
    let mut tags = DatagramTags::of(session);
    let association = dial.association(&welcome).map_err(|fault| {
        let error = HandshakeError::Malformed(fault.problem.to_owned());
        ConnectError::Handshake { address: peer, error }
    })?;
    let local = SocketAddr::new(stream.local_addr().map_err(unreachable)?.ip(), 0);
    let mut socket = udp::open(local, Some(peer), &dialing.options.datagrams()).map_err(unready)?;
    let estimate = round_trip(&stream).unwrap_or_default();
    let path = probe_tagged(&mut socket, peer, association, dialing.mtu, estimate, &mut tags).await?;
    if path.mtu < dialing.mtu {
        let (builder, least, mtu) = (association.builder.number(), path.mtu, dialing.mtu);
        let address = &dial.address;
        tracing::warn!(
            builder,
            mtu,
            "packets of {mtu} bytes do not reach builder {builder} at {address}, so this source sends packets of {least} bytes, which costs throughput, but no data: set `network.mtu` to {least} on all hosts, or enlarge the MTU of devices and switches on the way"
        );
    }
    socket.prepare(&*dialing.executor, rate).map_err(unready)?;
    // The kernel would cut longer trains into packets, and sending each packet would cost as
    // much as sending a train.
    let by_device = link::longest_train(peer.ip(), local.ip());
    let train = dialing.options.train.into_iter().chain(by_device).min();
    let end = SourceDatagrams::new(stream, socket, path, tags).in_trains_of(train);
    let (round_trip, datagram) = (Some(path.round_trip), end.lane.datagram());
    let path = LanePath { association, round_trip, datagram };
    Ok((Box::new(end), welcome, Some(path)))
}
