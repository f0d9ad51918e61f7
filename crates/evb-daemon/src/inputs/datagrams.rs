//! Opens the socket for the datagrams of a source's boards.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use evb::{
    input::{BoardDatagrams, Datagrams, Listening},
    source::FrontEnds,
};
use evb_config::{DatagramPlace, Endpoint, Sender};
use evb_net::resolve::resolve;

use super::InputError;

/// Returns the place where datagrams arrive, and the host from which they come, if only the host is
/// given.
pub(super) async fn listening(place: &DatagramPlace) -> Result<(Listening, Option<IpAddr>), InputError> {
    let DatagramPlace { listen, group, interface, from, receive_buffer, .. } = place;
    let address = first(listen).await?;
    let (mut host, mut sender) = (None, None);
    if let Some(Sender { host: name, port }) = from {
        let found = first(&Endpoint { host: name.clone(), port: port.unwrap_or(0) }).await?;
        match port {
            Some(_) => sender = Some(found),
            None => host = Some(found.ip()),
        }
    }
    let (group, interface) = (*group, interface.clone());
    Ok((Listening { address, group, interface, from: sender, receive_buffer: *receive_buffer }, host))
}

async fn first(address: &Endpoint) -> Result<SocketAddr, InputError> {
    let found = resolve(&address.to_string()).await?;
    found.first().copied().ok_or_else(|| InputError::System(io::ErrorKind::NotFound.into()))
}

/// Opens the socket.
pub(super) fn open(
    listening: &Listening,
    host: Option<IpAddr>,
    decoder: Datagrams,
    front_ends: FrontEnds,
) -> Result<BoardDatagrams, InputError> {
    let boards = BoardDatagrams::open(listening, decoder).map_err(|reason| {
        let address = listening.address.to_string();
        let remedy = "give a free port as `listen` and an interface of this host as `interface`, or stop the program that uses the port";
        InputError::Listen { address, reason, remedy }
    })?;
    let boards = boards.with_front_ends(front_ends);
    Ok(match host {
        Some(host) => boards.of_host(host),
        None => boards,
    })
}
