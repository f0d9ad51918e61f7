//! `evbd probe-buffer send`: does what the listener says, within limits of its own.

use std::{
    io::{self, Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpStream, UdpSocket},
    thread,
    time::{Duration, Instant as Wall},
};

use evb_core::{time::Instant, units::Bytes};
use evb_net::clock;
use socket2::{Domain, Socket, Type};

use super::wire::{HEADER, MOST, Message, Numbered, Order, RECORD};

/// How long the listener is waited for.
const CONNECT: Duration = Duration::from_secs(30);
/// How long it may be silent: others may still be missing.
const SILENCE: Duration = Duration::from_secs(120);
/// A whole measurement.
const LONGEST: Duration = Duration::from_secs(300);
/// All that one sender ever sends, whatever it is told.
const MOST_BYTES: u64 = 1 << 30;
/// An order starts soon and is over soon.
const SOON: Duration = Duration::from_secs(10);
/// The largest payload in a jumbo frame.
const LARGEST: u16 = 8972;
/// Datagrams by which one that is late is made up for.
const CATCH_UP: u64 = 2;
/// The kernel's timers are that late at most, mostly; the rest is waited for awake.
const TIMER: Duration = Duration::from_micros(150);

/// Why a sender ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// Nobody there.
    #[error(
        "cannot reach {address}: {reason}; is `evbd probe-buffer listen` running there, and its port open?"
    )]
    Unreachable { address: SocketAddr, reason: io::Error },
    /// An address that is not ours.
    #[error("cannot send from {address}: {reason}; --bind takes an address of this host")]
    Bind { address: IpAddr, reason: io::Error },
    /// The connection broke.
    #[error("the listener is gone: {0}; look at what it says")]
    Gone(#[from] io::Error),
    /// Not a listener of ours.
    #[error("{0} is no `evbd probe-buffer listen` of this version: {1}")]
    Stranger(SocketAddr, &'static str),
}

/// Sends until the listener has enough. What it found: 0 for nothing.
pub(super) fn send(listener: SocketAddr, bind: Option<IpAddr>) -> Result<Bytes, SendError> {
    let mut control = connect(listener, bind)?;
    control.set_nodelay(true)?;
    control.set_read_timeout(Some(SILENCE))?;
    control.set_write_timeout(Some(SOON))?;
    control.write_all(&Message::Hello.encode())?;
    let stranger = |what| SendError::Stranger(listener, what);
    let Some(Message::Welcome { sender, port, payload, token }) = read(&mut control)? else {
        return Err(stranger("its first words are others"));
    };
    if !(HEADER as u16..=LARGEST).contains(&payload) {
        return Err(stranger("it wants impossible datagrams"));
    }
    let local = SocketAddr::new(control.local_addr()?.ip(), 0);
    // To the listener's own address and nobody else's, so that nobody can be made to flood a third.
    let socket = UdpSocket::bind(local)?;
    socket.connect(SocketAddr::new(listener.ip(), port))?;
    let mut datagram = vec![0; usize::from(payload)];
    let began = Wall::now();
    let mut left = MOST_BYTES;
    loop {
        match read(&mut control)? {
            Some(Message::Ping { nonce }) => {
                let nanos = clock::now().as_nanos();
                control.write_all(&Message::Pong { nonce, nanos }.encode())?;
            }
            Some(Message::Order(order)) => {
                let asked = u64::from(order.total()).saturating_mul(payload.into());
                left = left.checked_sub(asked).ok_or_else(|| stranger("it asks for too much"))?;
                if !is_moderate(&order) || began.elapsed() > LONGEST {
                    return Err(stranger("it asks for too much"));
                }
                let head = Numbered { sender, token, burst: order.burst, index: 0 };
                let (times, errors) = obey(&socket, &order, head, &mut datagram);
                let sent = Message::Sent { burst: order.burst, count: order.total(), errors };
                let mut answer = sent.encode().to_vec();
                answer.extend(times.iter().flat_map(|time| time.to_le_bytes()));
                control.write_all(&answer)?;
            }
            Some(Message::End { bytes }) => return Ok(Bytes::new(bytes)),
            _ => return Err(stranger("it says what only senders say")),
        }
    }
}

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

fn read(control: &mut TcpStream) -> io::Result<Option<Message>> {
    let mut record = [0; RECORD];
    control.read_exact(&mut record)?;
    Ok(Message::decode(&record))
}

/// Whether an order is one that a measurement needs.
pub(super) fn is_moderate(order: &Order) -> bool {
    let soon = SOON.as_nanos() as u64;
    let start = Instant::from_nanos(order.start).since(clock::now());
    order.total() <= MOST
        && start <= SOON
        && order.phase <= soon
        && order.ahead_spacing.checked_mul(u64::from(order.ahead) + 4).is_some_and(|time| time <= soon)
        && order.spacing.checked_mul(u64::from(order.count)).is_some_and(|time| time <= soon)
}

/// Sends every datagram at its time. Those behind a late one catch up [`CATCH_UP`] at most: more would queue in this host's
/// own link. Gives when each was sent, after the start, and how many the system refused.
fn obey(socket: &UdpSocket, order: &Order, head: Numbered, datagram: &mut [u8]) -> (Vec<u32>, u32) {
    let mut times = Vec::with_capacity(order.total() as usize);
    let (mut errors, mut next) = (0, 0);
    for index in 0..order.total() {
        let due = order.start.saturating_add(order.due(index)).max(next);
        let encoded = Numbered { index, ..head }.encode();
        datagram.iter_mut().zip(encoded).for_each(|(place, byte)| *place = byte);
        let now = wait_until(Instant::from_nanos(due));
        // Refused by a full queue of our own, or by an error that an earlier datagram brought back.
        if socket.send(datagram).is_err() {
            errors += 1;
        }
        let behind = now.as_nanos().saturating_sub(due).min(CATCH_UP * order.spacing);
        next = (now.as_nanos() - behind).saturating_add(order.spacing);
        times.push(u32::try_from(now.as_nanos().saturating_sub(order.start)).unwrap_or(u32::MAX));
    }
    (times, errors)
}

/// Sleeps almost until then, stays awake for the rest, and gives the time.
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
