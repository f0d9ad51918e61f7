//! `evbd probe-buffer send`: sends the datagrams that the listener orders, within fixed limits.

use std::{
    io::{self, Write as _},
    net::{IpAddr, SocketAddr, TcpStream, UdpSocket},
    thread,
    time::{Duration, Instant as Wall},
};

use evb_core::{time::Instant, units::Bytes};
use evb_net::clock;
use socket2::{Domain, Socket, Type};

use super::wire::{HEADER, MOST, Message, Numbered, Order};

/// Time for which connecting to the listener is retried.
const CONNECT: Duration = Duration::from_secs(30);
/// Longest time without a message from the listener, which may still be waiting for other senders.
const SILENCE: Duration = Duration::from_secs(120);
/// Longest duration of a whole measurement.
const LONGEST: Duration = Duration::from_secs(300);
/// Largest number of bytes that a sender sends in total, even if the listener orders more.
const MOST_BYTES: u64 = 1 << 30;
/// Time within which an order must start, and longest duration of its datagrams.
const SOON: Duration = Duration::from_secs(10);
/// Bytes of the largest UDP payload in a jumbo frame.
const LARGEST: u16 = 8972;
/// Largest number of datagrams that are sent ahead of schedule after a late datagram.
const CATCH_UP: u64 = 2;
/// Usual lateness of the kernel's timers. The sender spends the last part of each wait in a busy
/// loop of this length.
const TIMER: Duration = Duration::from_micros(150);

/// The reason why a sender ended without completing the measurement.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// The listener cannot be reached.
    #[error(
        "cannot reach {address}: {reason}; start `evbd probe-buffer listen` there, and open TCP and UDP port {} in the firewalls",
        address.port()
    )]
    Unreachable { address: SocketAddr, reason: io::Error },
    /// The address given by `--bind` does not belong to this host.
    #[error(
        "cannot send from {address}: {reason}; give --bind an address of this host, which `ip address` lists"
    )]
    Bind { address: IpAddr, reason: io::Error },
    /// The connection to the listener failed.
    #[error(
        "the connection to the listener ended, so nothing was measured: {0}; correct what the listener's output says, then start it and all senders again"
    )]
    Gone(#[from] io::Error),
    /// The peer is not a listener, or has another version.
    #[error(
        "{0} is not an `evbd probe-buffer listen` of this release: {1}; check the address, and install the same release on both hosts"
    )]
    Stranger(SocketAddr, &'static str),
}

/// Sends datagrams as ordered until the listener ends the measurement. Returns the buffer that the
/// listener measured; 0 if it measured none.
pub(super) fn send(listener: SocketAddr, bind: Option<IpAddr>) -> Result<Bytes, SendError> {
    let mut control = connect(listener, bind)?;
    control.set_nodelay(true)?;
    control.set_write_timeout(Some(SOON))?;
    control.write_all(&Message::Hello.encode())?;
    let stranger = |what| SendError::Stranger(listener, what);
    let Some(Message::Welcome { sender, port, payload, token }) = Message::receive(&mut control, SILENCE)?
    else {
        return Err(stranger("its first message is of another kind"));
    };
    if !(HEADER as u16..=LARGEST).contains(&payload) {
        return Err(stranger("it asks for datagrams of an impossible size"));
    }
    let local = SocketAddr::new(control.local_addr()?.ip(), 0);
    // The sender sends datagrams only to the IP address of the listener, so that a malicious
    // listener cannot make senders flood a third host.
    let socket = UdpSocket::bind(local)?;
    socket.connect(SocketAddr::new(listener.ip(), port))?;
    let mut datagram = vec![0; usize::from(payload)];
    let began = Wall::now();
    let mut left = MOST_BYTES;
    loop {
        match Message::receive(&mut control, SILENCE)? {
            Some(Message::Ping { nonce }) => {
                let nanos = clock::now().as_nanos();
                control.write_all(&Message::Pong { nonce, nanos }.encode())?;
            }
            Some(Message::Order(order)) => {
                let asked = u64::from(order.total()).saturating_mul(payload.into());
                if asked > left || !is_moderate(&order) || began.elapsed() > LONGEST {
                    return Err(stranger("it asks for more datagrams or more time than a measurement needs"));
                }
                left -= asked;
                let head = Numbered { sender, token, burst: order.burst, index: 0 };
                let (times, errors) = obey(&socket, &order, head, &mut datagram);
                let sent = Message::Sent { burst: order.burst, count: order.total(), errors };
                let mut answer = sent.encode().to_vec();
                answer.extend(times.iter().flat_map(|time| time.to_le_bytes()));
                control.write_all(&answer)?;
            }
            Some(Message::End { bytes }) => return Ok(Bytes::new(bytes)),
            _ => return Err(stranger("it sent a message that only senders send")),
        }
    }
}

/// Connects to the listener, which may be started a little later.
fn connect(listener: SocketAddr, bind: Option<IpAddr>) -> Result<TcpStream, SendError> {
    let began = Wall::now();
    loop {
        let socket = Socket::new(Domain::for_address(listener), Type::STREAM, None)?;
        if let Some(address) = bind {
            let local = SocketAddr::new(address, 0);
            socket.bind(&local.into()).map_err(|reason| SendError::Bind { address, reason })?;
        }
        match socket.connect_timeout(&listener.into(), Duration::from_secs(3)) {
            Ok(()) => return Ok(socket.into()),
            Err(reason) if began.elapsed() > CONNECT => {
                return Err(SendError::Unreachable { address: listener, reason });
            }
            Err(_) => thread::sleep(Duration::from_millis(200)),
        }
    }
}

/// Returns true if a real measurement could need an order of this size.
pub(super) fn is_moderate(order: &Order) -> bool {
    let soon = SOON.as_nanos() as u64;
    let start = Instant::from_nanos(order.start).since(clock::now());
    // Ahead of the burst, the datagrams and the pause of four spacings behind them count.
    order.total() <= MOST
        && start <= SOON
        && order.phase <= soon
        && order.ahead_spacing.checked_mul(u64::from(order.ahead) + 4).is_some_and(|time| time <= soon)
        && order.spacing.checked_mul(u64::from(order.count)).is_some_and(|time| time <= soon)
}

/// Sends every datagram at its scheduled time. After a late datagram, the following datagrams catch
/// up at most [`CATCH_UP`] spacings, because more datagrams would queue in this host's own link.
/// Returns the sending times relative to the start, and the number of datagrams that the operating
/// system refused.
fn obey(socket: &UdpSocket, order: &Order, head: Numbered, datagram: &mut [u8]) -> (Vec<u32>, u32) {
    let mut times = Vec::with_capacity(order.total() as usize);
    let (mut errors, mut next) = (0, 0);
    for index in 0..order.total() {
        let due = order.start.saturating_add(order.due(index)).max(next);
        if let Some(header) = datagram.first_chunk_mut() {
            *header = Numbered { index, ..head }.encode();
        }
        let now = wait_until(Instant::from_nanos(due));
        // The operating system refuses a datagram if the socket's send buffer is full, or if an
        // earlier datagram caused an error.
        if socket.send(datagram).is_err() {
            errors += 1;
        }
        let behind = now.as_nanos().saturating_sub(due).min(CATCH_UP * order.spacing);
        next = (now.as_nanos() - behind).saturating_add(order.spacing);
        times.push(u32::try_from(now.as_nanos().saturating_sub(order.start)).unwrap_or(u32::MAX));
    }
    (times, errors)
}

/// Sleeps until shortly before `due`, waits in a busy loop for the rest, and returns the present
/// time.
fn wait_until(due: Instant) -> Instant {
    loop {
        let now = clock::now();
        let left = due.since(now);
        if left.is_zero() {
            return now;
        }
        if left > TIMER {
            thread::sleep(left - TIMER);
        } else {
            thread::yield_now();
        }
    }
}
