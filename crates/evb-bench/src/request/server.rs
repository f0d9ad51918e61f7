//! The end that answers requests.

use std::{
    io::{self, BufReader, Read as _, Write as _},
    net::{IpAddr, TcpListener, UdpSocket},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::wire::{self, Order, Over, REQUEST, Ready, Served};
use crate::ends::{
    Dialogue, PATIENCE, SocketWishes, Transport, accept_from, is_timeout, tcp_listener, udp_socket,
};

/// Longest wait for a datagram before the end of the run is checked.
const LOOK: Duration = Duration::from_millis(50);
/// Longest run that is served.
const LONGEST_RUN: Duration = Duration::from_secs(700);

enum Socket {
    Tcp(TcpListener),
    Udp(UdpSocket),
}

/// Serves the runs of one peer.
pub(super) fn serve(dialogue: &mut Dialogue) -> io::Result<()> {
    while let Some(order) = dialogue.hear::<Order>(PATIENCE)? {
        if !order.is_possible() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the other end asked for a run beyond the limits of this version",
            ));
        }
        let (local, peer) = (dialogue.local(), dialogue.peer_at(0).ip());
        let (socket, port) = match order.transport {
            Transport::Tcp => {
                let listener = tcp_listener(local, SocketWishes::default())?;
                let port = listener.local_addr()?.port();
                (Socket::Tcp(listener), port)
            }
            Transport::Udp => {
                let socket = udp_socket(local, SocketWishes::default())?;
                let port = socket.local_addr()?.port();
                (Socket::Udp(socket), port)
            }
        };
        dialogue.say(&Ready { port })?;
        let is_over = AtomicBool::new(false);
        let served = thread::scope(|scope| {
            let serving = scope.spawn(|| match &socket {
                Socket::Tcp(listener) => answer_stream(listener, peer, order),
                Socket::Udp(socket) => answer_datagrams(socket, peer, order, &is_over),
            });
            let over = dialogue.must_hear::<Over>(LONGEST_RUN);
            is_over.store(true, Ordering::Relaxed);
            let served = serving.join().map_err(|_| io::Error::other("the answering thread crashed"))?;
            over.and(served)
        })?;
        dialogue.say(&Served { requests: served })?;
    }
    Ok(())
}

/// Answers the requests of one connection until its end; returns their number.
fn answer_stream(listener: &TcpListener, peer: IpAddr, order: Order) -> io::Result<u64> {
    let mut stream = accept_from(listener, peer, PATIENCE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut response = vec![0x5a; order.length as usize];
    let mut served = 0;
    loop {
        let mut request = [0; REQUEST];
        match reader.read_exact(&mut request) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(served),
            // The peer closed the connection before it had read all responses.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(served),
            Err(error) => return Err(error),
        }
        if wire::number(&request, order.run).is_none() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "bytes arrived that are no request of this run",
            ));
        }
        response[..REQUEST].copy_from_slice(&request);
        match stream.write_all(&response) {
            Ok(()) => served += 1,
            Err(error)
                if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
            {
                return Ok(served);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Answers requests until the run is over; returns their number. Requests with another source
/// address get no answer, so that a peer cannot direct responses to a third host.
fn answer_datagrams(socket: &UdpSocket, peer: IpAddr, order: Order, is_over: &AtomicBool) -> io::Result<u64> {
    socket.set_read_timeout(Some(LOOK))?;
    let mut response = vec![0x5a; order.length as usize];
    let mut request = [0; REQUEST];
    let mut served = 0;
    let end = Instant::now() + LONGEST_RUN;
    while !is_over.load(Ordering::Relaxed) && Instant::now() < end {
        match socket.recv_from(&mut request) {
            Ok((length, from)) => {
                if from.ip() == peer && wire::number(&request[..length], order.run).is_some() {
                    response[..REQUEST].copy_from_slice(&request);
                    // A response that the kernel has no room for is lost, and its request is
                    // repeated.
                    served += u64::from(socket.send_to(&response, from).is_ok());
                }
            }
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {}
            // The peer has closed its socket already.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => return Err(error),
        }
    }
    Ok(served)
}
