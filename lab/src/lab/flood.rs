//! A program that attacks evb from a host of the lab: it floods ports of evb with datagrams, and
//! opens connections to these and other ports. The data are random bytes, other protocols, data
//! that begin like evb's own, or nothing.

use std::{
    io::Write as _,
    net::{SocketAddr, TcpStream, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::json;

use super::dice::Dice;

/// Number of datagrams per second that the attacker sends; `CONNECTS` is its number of connections
/// per second.
pub(super) const DATAGRAMS: f64 = 5_000.0;
pub(super) const CONNECTS: f64 = 200.0;
/// Largest number of connections that the attacker keeps open at once.
const HELD: usize = 64;
/// Number of the highest port that the port scan tries.
const PORTS: u16 = 1_024;

/// Attacks the targets for `seconds`, and prints the numbers of datagrams and connections as JSON.
pub(crate) fn flood(targets: &[SocketAddr], seconds: f64) -> Result<()> {
    let datagrams = {
        let targets = targets.to_vec();
        thread::spawn(move || throw(&targets, seconds))
    };
    let connects = connect(targets, seconds);
    let datagrams = datagrams.join().unwrap_or(Ok(0))?;
    println!("{}", json!({ "datagrams": datagrams, "connects": connects }));
    Ok(())
}

/// Waits until the datagram or connection number `count` is due at this rate.
fn pace(begun: Instant, count: u64, rate: f64) {
    let due = Duration::from_secs_f64(count as f64 / rate);
    thread::sleep(due.saturating_sub(begun.elapsed()));
}

fn throw(targets: &[SocketAddr], seconds: f64) -> Result<u64> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let (begun, mut dice, mut thrown) = (Instant::now(), Dice(1), 0u64);
    while begun.elapsed().as_secs_f64() < seconds {
        // Datagrams are sent ten at a time, because the operating system's sleep is imprecise.
        pace(begun, thrown, DATAGRAMS);
        for _ in 0..10 {
            let mut datagram: Vec<u8> = (0..dice.below(200)).map(|_| dice.next() as u8).collect();
            // Half of the random datagrams begin with the two magic bytes of evb's datagrams.
            if dice.below(2) == 0 && datagram.len() > 1 {
                datagram[..2].copy_from_slice(&[0xeb, 0x11]);
            }
            // The result of sending is ignored, because it fails if no process listens at the
            // target.
            let _ = socket.send_to(&datagram, targets[dice.below(targets.len())]);
            thrown += 1;
        }
    }
    Ok(thrown)
}

fn connect(targets: &[SocketAddr], seconds: f64) -> u64 {
    const FIRST_WORDS: [&[u8]; 4] = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x65\x76\x62\xeb\x01\x00\x01\x00\xff\xff\xff\x7f",
        b"\x65\x76\x62\xeb",
    ];
    let (begun, mut dice, mut made) = (Instant::now(), Dice(2), 0u64);
    let mut held = std::collections::VecDeque::new();
    while begun.elapsed().as_secs_f64() < seconds {
        pace(begun, made, CONNECTS);
        made += 1;
        let mut target = targets[dice.below(targets.len())];
        if dice.below(4) == 0 {
            target.set_port(1 + dice.below(usize::from(PORTS)) as u16);
        }
        let Ok(mut stream) = TcpStream::connect_timeout(&target, Duration::from_millis(100)) else {
            continue;
        };
        // The result of writing is ignored, because the target may close the connection
        // immediately.
        let _ = stream.write_all(FIRST_WORDS[dice.below(FIRST_WORDS.len())]);
        if dice.below(3) == 0 {
            held.push_back(stream);
        }
        if held.len() > HELD {
            held.pop_front();
        }
    }
    made
}
