//! The connection from a source or builder to its supervisor, and the options of control sockets.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use evb_core::{
    session::CONTROL_UNACKNOWLEDGED,
    wire::{
        control::{Hello, Refusal, Welcome},
        preamble::ConnectionKind,
    },
};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::ControlLink;
use crate::{
    congestion,
    handshake::{self, Channel, HandshakeError},
    lane::PathError,
    resolve::{ResolveError, resolve},
    security::Security,
};

/// Time until an attempt to open a TCP connection is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Reason why a peer could not be reached, which decides if another attempt makes sense.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The `host:port` is malformed, or its host name has no address.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The TCP connection to the address failed.
    #[error("{address} cannot be reached: {reason}{}", opening(reason))]
    Unreachable {
        /// Address that was tried, as messages name it: with its role if that is the supervisor.
        address: String,
        /// Error that the operating system reported.
        reason: io::Error,
    },
    /// The lane cannot use datagrams, because they do not reach the peer.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The local address to send from cannot be used.
    #[error("cannot send from {bind}: {reason}; write an address of this host as `bind`")]
    Bind {
        /// The local address.
        bind: IpAddr,
        /// Error that the operating system reported.
        reason: io::Error,
    },
    /// The peer speaks the evb protocol and refused the connection.
    #[error("the evb process at {address} refused the connection: {}", handshake::words(.refusal))]
    Refused {
        /// Address that was tried.
        address: SocketAddr,
        /// The peer's reason.
        refusal: Refusal,
    },
    /// The peer accepted the TCP connection, but the handshake failed.
    #[error("the connection to {address} could not begin: {error}")]
    Handshake {
        /// Address that was tried.
        address: SocketAddr,
        /// Reason why the handshake failed.
        error: HandshakeError,
    },
}

/// Returns what to do about an address that cannot be reached. The words of evb have their own
/// remedy.
fn opening(reason: &io::Error) -> &'static str {
    if reason.get_ref().is_some() {
        ""
    } else {
        "; start evbd there if it is not running, else open the port in its firewall"
    }
}

/// Sets the options of every control socket: `TCP_NODELAY`, keepalive, and a timeout that ends the
/// connection if the peer's host does not respond.
///
/// # Errors
/// An I/O error of the operating system, if the socket is no longer usable.
pub fn set_control_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    let keepalive =
        TcpKeepalive::new().with_time(Duration::from_secs(5)).with_interval(Duration::from_secs(2));
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(CONTROL_UNACKNOWLEDGED))?;
    Ok(())
}

/// Listens for control connections at the first of `addresses` that can be bound.
///
/// # Errors
/// Fails if every address is in use or does not belong to this host.
pub async fn listen(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(addresses).await?;
    // Thousands of peers may connect at once when a run starts; the default queue has 128 places.
    SockRef::from(&listener).listen(1024)?;
    congestion::choose(SockRef::from(&listener), None);
    Ok(listener)
}

/// Opens a TCP connection to `host:port`, from the local address `bind` if given, and tries all
/// addresses of the host name. The congestion control is `congestion_control` if given, else cubic.
///
/// # Errors
/// Returns the [`ConnectError`] of the address that was tried last.
pub async fn open(
    address: &str,
    bind: Option<IpAddr>,
    congestion_control: Option<&str>,
) -> Result<TcpStream, ConnectError> {
    connect_any(&resolve(address).await?, bind, congestion_control).await
}

/// Connects to the first of `addresses` that answers.
async fn connect_any(
    addresses: &[SocketAddr],
    bind: Option<IpAddr>,
    congestion_control: Option<&str>,
) -> Result<TcpStream, ConnectError> {
    let mut last = None;
    let usable = |address: &&SocketAddr| bind.is_none_or(|bind| bind.is_ipv4() == address.is_ipv4());
    for address in addresses.iter().filter(usable) {
        match connect_one(*address, bind, congestion_control).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| ConnectError::Unreachable {
        address: addresses.first().map_or_else(String::new, ToString::to_string),
        reason: io::Error::new(
            io::ErrorKind::AddrNotAvailable,
            "the name has no address of the same family (IPv4 or IPv6) as `bind`; correct `bind`, or give another name or address",
        ),
    }))
}

/// Connects to one address within [`CONNECT_TIMEOUT`], from the address `bind` if one is given.
async fn connect_one(
    address: SocketAddr,
    bind: Option<IpAddr>,
    congestion_control: Option<&str>,
) -> Result<TcpStream, ConnectError> {
    let unreachable = |reason| ConnectError::Unreachable { address: address.to_string(), reason };
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP)).map_err(unreachable)?;
    socket.set_nonblocking(true).map_err(unreachable)?;
    congestion::choose(SockRef::from(&socket), congestion_control);
    if let Some(bind) = bind {
        let fault = |reason| ConnectError::Bind { bind, reason };
        leave_port_to_connect(&socket);
        socket.bind(&SocketAddr::new(bind, 0).into()).map_err(fault)?;
    }
    let socket = TcpSocket::from_std_stream(socket.into());
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, socket.connect(address));
    connecting.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(unreachable)
}

/// Lets the kernel choose the port of a bound socket when it connects (ip(7),
/// `IP_BIND_ADDRESS_NO_PORT`). A port that `bind` chooses must be free for all destinations. If an
/// address has thousands of connections, the kernel searches for milliseconds, and finds no port
/// for more connections than there are ports.
#[cfg(target_os = "linux")]
fn leave_port_to_connect(socket: &Socket) {
    // If the option cannot be set, `bind` chooses the port.
    let _ = crate::sys_option::set(
        std::os::fd::AsFd::as_fd(socket),
        libc::IPPROTO_IP,
        libc::IP_BIND_ADDRESS_NO_PORT,
        &1_i32,
    );
}

#[cfg(not(target_os = "linux"))]
fn leave_port_to_connect(_: &Socket) {}

/// Connects to the supervisor and performs the handshake without a key: [`connect_secured`] with
/// [`Security::None`].
///
/// # Errors
/// Returns the errors of [`connect_secured`].
pub async fn connect(
    address: &str,
    bind: Option<IpAddr>,
    hello: &Hello,
) -> Result<(ControlLink, Welcome), ConnectError> {
    connect_secured(address, bind, hello, &Security::None).await
}

/// Connects to the supervisor, agrees on session keys if a pre-shared key is configured, and
/// performs the handshake.
///
/// # Errors
/// Returns a [`ConnectError`]: the supervisor is unreachable (retry later) or refused with a
/// reason, or the peer does not speak the evb protocol.
pub async fn connect_secured(
    address: &str,
    bind: Option<IpAddr>,
    hello: &Hello,
    security: &Security,
) -> Result<(ControlLink, Welcome), ConnectError> {
    let supervisor = |address: &str| format!("the supervisor at {address}");
    let stream = open(address, bind, None).await.map_err(|error| match error {
        ConnectError::Unreachable { address, reason } => {
            ConnectError::Unreachable { address: supervisor(&address), reason }
        }
        other => other,
    })?;
    let unreachable = |reason| ConnectError::Unreachable { address: supervisor(address), reason };
    set_control_options(&stream).map_err(unreachable)?;
    let peer = stream.peer_addr().map_err(unreachable)?;
    match Channel::connect(stream, ConnectionKind::Control, hello, security).await {
        Ok((channel, welcome)) => Ok((ControlLink::new(channel, peer), welcome)),
        Err(HandshakeError::Refused(refusal)) => Err(ConnectError::Refused { address: peer, refusal }),
        Err(error) => Err(ConnectError::Handshake { address: peer, error }),
    }
}
