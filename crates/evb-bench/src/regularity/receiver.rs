//! The receiving end, which records the time at which the kernel received each message. The
//! receiver serves one sender at a time over a TCP connection, in lines of JSON, so that it can run
//! as a thread of this process or as a program on another host.

use std::{
    io::{self, BufReader},
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use evb_core::units::Bytes;
use evb_net::pacing::GapReceiver;
use serde::{Deserialize, Serialize};

use super::message;
use crate::lines;

/// The largest number of messages of a run; the receiver keeps all arrival times in memory.
pub(super) const MOST_MESSAGES: u32 = 4_000_000;
/// The longest time to wait for the next message that a sender may request.
const MOST_PATIENCE: Duration = Duration::from_secs(60);
/// Largest length of a JSON line in bytes: 32 bytes for each message.
const LONGEST_LINE: u64 = 32 * MOST_MESSAGES as u64;
/// Size of the socket's receive buffer, which holds the datagrams that arrive while this thread
/// does not run.
const SOCKET_BUFFER: Bytes = Bytes::mib(4);

/// The sender's announcement of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Announcement {
    pub(super) run: u64,
    pub(super) messages: u32,
    /// Time without messages after which the receiver ends the run.
    pub(super) patience_ms: u64,
}

/// The receiver's answer to an announcement: it is ready for messages at this UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ready {
    pub(super) port: u16,
}

/// The messages of a run in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Arrivals {
    pub(super) numbers: Vec<u32>,
    /// Arrival times in nanoseconds by the receiver's clock; only differences between them have a
    /// meaning.
    pub(super) nanos: Vec<u64>,
    /// Number of messages without a time stamp of the kernel; their arrival times are the times at
    /// which this program read them.
    pub(super) unstamped: u64,
    /// Number of datagrams that belong to another run or to another program.
    pub(super) foreign: u64,
}

/// A receiver that waits for senders.
#[derive(Debug)]
pub(super) struct Receiver {
    listener: TcpListener,
}

impl Receiver {
    pub(super) fn bind(at: SocketAddr) -> io::Result<Self> {
        Ok(Self { listener: TcpListener::bind(at)? })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts the next sender and serves it until it closes the connection.
    pub(super) fn serve(&self) -> io::Result<SocketAddr> {
        let (stream, peer) = self.listener.accept()?;
        stream.set_nodelay(true)?;
        let mut writer = stream.try_clone()?;
        let mut reader = BufReader::new(stream);
        while let Some(run) = lines::read::<Announcement>(&mut reader, LONGEST_LINE)? {
            let local = SocketAddr::new(self.address()?.ip(), 0);
            let mut socket = GapReceiver::bind(local, Some(SOCKET_BUFFER))?;
            lines::write(&mut writer, &Ready { port: socket.local_addr()?.port() })?;
            lines::write(&mut writer, &collect(&mut socket, run)?)?;
        }
        Ok(peer)
    }
}

/// Receives messages until all expected ones have arrived, or until none arrives for the run's
/// patience.
fn collect(socket: &mut GapReceiver, run: Announcement) -> io::Result<Arrivals> {
    let expected = run.messages.min(MOST_MESSAGES);
    let patience = Duration::from_millis(run.patience_ms).min(MOST_PATIENCE);
    let mut arrivals = Arrivals::default();
    while arrivals.numbers.len() < expected as usize {
        let Some(receipt) = socket.receive(patience)? else { break };
        match message::read(socket.payload(&receipt)).filter(|(of, _)| *of == run.run) {
            None => arrivals.foreign += 1,
            Some((_, number)) => {
                arrivals.numbers.push(number);
                arrivals.nanos.push(receipt.at.as_nanos());
                arrivals.unstamped += u64::from(!receipt.stamped);
            }
        }
        // Datagrams of other programs must not prolong the run without end.
        if arrivals.foreign > u64::from(MOST_MESSAGES) {
            break;
        }
    }
    Ok(arrivals)
}

/// The sender's end of the connection.
#[derive(Debug)]
pub(super) struct Connection {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    peer: SocketAddr,
}

impl Connection {
    pub(super) fn open(to: SocketAddr) -> io::Result<Self> {
        let writer = TcpStream::connect(to)?;
        writer.set_nodelay(true)?;
        let peer = writer.peer_addr()?;
        Ok(Self { reader: BufReader::new(writer.try_clone()?), writer, peer })
    }

    /// Announces a run; returns the address to which its messages must be sent.
    pub(super) fn announce(&mut self, run: Announcement) -> io::Result<SocketAddr> {
        lines::write(&mut self.writer, &run)?;
        let ready: Ready =
            lines::read(&mut self.reader, LONGEST_LINE)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(SocketAddr::new(self.peer.ip(), ready.port))
    }

    /// Waits for the end of the run; returns its arrivals.
    pub(super) fn arrivals(&mut self) -> io::Result<Arrivals> {
        let arrivals: Arrivals =
            lines::read(&mut self.reader, LONGEST_LINE)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if arrivals.numbers.len() == arrivals.nanos.len() {
            Ok(arrivals)
        } else {
            Err(io::Error::new(io::ErrorKind::InvalidData, "arrival times of some messages are missing"))
        }
    }

    /// Returns the receiver's address.
    pub(super) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the local address of the connection.
    pub(super) fn local(&self) -> io::Result<SocketAddr> {
        self.writer.local_addr()
    }
}
