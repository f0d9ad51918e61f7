//! A relay between sources and a builder that flips bits: `tc` cannot, and UDP's own checksum would
//! detect them. Here every datagram is received and sent again, so that its checksum is correct,
//! and only evb's check can detect the damage.

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream, UdpSocket},
    sync::Arc,
    thread,
};

use anyhow::Result;
use serde_json::json;

use super::dice::Dice;

/// Room for any datagram.
const DATAGRAM: usize = 65_536;
/// Number of damaged datagrams between two reports of the total.
const SAY_EVERY: u64 = 10;

/// Relays streams verbatim, and datagrams both ways. Each datagram towards the builder is damaged
/// with this probability.
pub(crate) fn relay(at: SocketAddr, to: SocketAddr, percent: f64) -> Result<()> {
    let (listener, socket) = (TcpListener::bind(at)?, Arc::new(UdpSocket::bind(at)?));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // If the builder is unreachable, the relay closes the source's connection, and the
            // source retries.
            let _ = relay_stream(stream, to);
        }
    });
    let mut ways: Vec<(SocketAddr, UdpSocket)> = Vec::new();
    let (mut dice, mut damaged, mut datagram) = (Dice(1), 0u64, vec![0; DATAGRAM]);
    loop {
        let (length, source) = socket.recv_from(&mut datagram)?;
        let datagram = &mut datagram[..length];
        if dice.uniform() * 100.0 < percent {
            let bit = (dice.uniform() * (length * 8) as f64) as usize;
            datagram[bit / 8] ^= 1 << (bit % 8);
            damaged += 1;
            if damaged.is_multiple_of(SAY_EVERY) {
                println!("{}", json!({ "damaged": damaged }));
            }
        }
        let place = match ways.iter().position(|(known, _)| *known == source) {
            Some(place) => place,
            None => {
                ways.push((source, back(&socket, source, to)?));
                ways.len() - 1
            }
        };
        // Datagrams that cannot be sent are lost, as datagrams may be.
        let _ = ways[place].1.send(datagram);
    }
}

/// Opens the socket to the builder for one source, with a thread for the answers.
fn back(socket: &Arc<UdpSocket>, source: SocketAddr, to: SocketAddr) -> io::Result<UdpSocket> {
    let way = UdpSocket::bind((socket.local_addr()?.ip(), 0))?;
    way.connect(to)?;
    let (from_builder, socket) = (way.try_clone()?, Arc::clone(socket));
    thread::spawn(move || {
        let mut datagram = vec![0; DATAGRAM];
        loop {
            // A builder that does not run yet, or any more, refuses.
            if let Ok(length) = from_builder.recv(&mut datagram) {
                let _ = socket.send_to(&datagram[..length], source);
            }
        }
    });
    Ok(way)
}

fn relay_stream(source: TcpStream, to: SocketAddr) -> io::Result<()> {
    let builder = TcpStream::connect(to)?;
    for (mut from, mut into) in
        [(source.try_clone()?, builder.try_clone()?), (builder.try_clone()?, source.try_clone()?)]
    {
        into.set_nodelay(true)?;
        thread::spawn(move || {
            let copied = io::copy(&mut from, &mut into);
            // The end of either direction ends the other.
            let _ = into.shutdown(std::net::Shutdown::Both);
            copied
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
