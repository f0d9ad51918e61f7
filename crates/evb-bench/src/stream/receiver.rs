//! The receiving end, which counts what arrives.

use std::{
    io::{self, Read as _},
    net::{SocketAddr, TcpListener, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::wire::{self, Counted, Order, Ready, Sent};
use crate::{
    ends::{Dialogue, PATIENCE, Transport, accept_from, granted, is_timeout, tcp_listener, udp_socket},
    window::Window,
};

/// Size of the memory for arriving bytes: larger than any datagram, and than most reads of TCP.
const ROOM: usize = 256 * 1024;
/// Time without a datagram after the sender's end at which the run is over.
const QUIET: Duration = Duration::from_millis(100);

/// The socket of a run.
enum Socket {
    Tcp(TcpListener, SocketAddr),
    Udp(UdpSocket),
}

/// Serves the runs of one sender.
pub(super) fn serve(dialogue: &mut Dialogue) -> io::Result<()> {
    while let Some(order) = dialogue.hear::<Order>(PATIENCE)? {
        if !order.is_possible() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the other end asked for a run beyond the limits of this version",
            ));
        }
        let (socket, receive_buffer, local) = open(dialogue, &order)?;
        dialogue.say(&Ready { port: local.port(), receive_buffer })?;
        let is_over = AtomicBool::new(false);
        let counted = thread::scope(|scope| {
            let counting = scope.spawn(|| match &socket {
                Socket::Tcp(listener, peer) => count_stream(listener, *peer, &order),
                Socket::Udp(socket) => count_datagrams(socket, &order, &is_over),
            });
            let run = Duration::from_millis(order.warm_up_ms + order.window_ms);
            let sent = dialogue.must_hear::<Sent>(run + PATIENCE);
            is_over.store(true, Ordering::Relaxed);
            let counted = counting.join().map_err(|_| io::Error::other("the counting thread crashed"))?;
            sent.and(counted)
        })?;
        dialogue.say(&counted)?;
    }
    Ok(())
}

fn open(dialogue: &Dialogue, order: &Order) -> io::Result<(Socket, u64, SocketAddr)> {
    let (local, peer) = (dialogue.local(), dialogue.peer_at(0));
    match order.transport {
        Transport::Tcp => {
            let listener = tcp_listener(local, order.wishes)?;
            let (buffer, at) = (granted(&listener)?.1.count(), listener.local_addr()?);
            Ok((Socket::Tcp(listener, peer), buffer, at))
        }
        Transport::Udp => {
            let socket = udp_socket(local, order.wishes)?;
            let (buffer, at) = (granted(&socket)?.1.count(), socket.local_addr()?);
            Ok((Socket::Udp(socket), buffer, at))
        }
    }
}

fn window(order: &Order) -> Window {
    Window::new(Duration::from_millis(order.warm_up_ms), Duration::from_millis(order.window_ms))
}

fn counted(window: &Window, datagrams: u64, foreign: u64) -> Counted {
    let nanos = u64::try_from(window.time().as_nanos()).unwrap_or(u64::MAX);
    Counted { bytes: window.bytes, nanos, arrivals: window.arrivals, datagrams, foreign }
}

/// Reads a connection to its end.
fn count_stream(listener: &TcpListener, peer: SocketAddr, order: &Order) -> io::Result<Counted> {
    let mut stream = accept_from(listener, peer.ip(), PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let (mut window, mut room) = (window(order), vec![0; ROOM]);
    loop {
        match stream.read(&mut room) {
            Ok(0) => return Ok(counted(&window, 0, 0)),
            Ok(bytes) => window.add(bytes, Instant::now()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Receives datagrams until the sender is done and no more arrive.
fn count_datagrams(socket: &UdpSocket, order: &Order, is_over: &AtomicBool) -> io::Result<Counted> {
    socket.set_read_timeout(Some(QUIET))?;
    let label = wire::label(order.run);
    let (mut window, mut room) = (window(order), vec![0; ROOM]);
    let (mut datagrams, mut foreign) = (0, 0);
    // A stream of datagrams must not prolong the run for ever.
    let end = Instant::now() + Duration::from_millis(order.warm_up_ms + order.window_ms) + 2 * PATIENCE;
    loop {
        match socket.recv(&mut room) {
            Ok(bytes) if room[..bytes].starts_with(&label) => {
                datagrams += 1;
                window.add(bytes, Instant::now());
            }
            Ok(_) => foreign += 1,
            Err(error) if is_timeout(&error) && is_over.load(Ordering::Relaxed) => break,
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if (datagrams + foreign) % 1024 == 0 && Instant::now() > end {
            break;
        }
    }
    Ok(counted(&window, datagrams, foreign))
}
