//! The connection by which the two ends agree on each run.

use std::{
    io::{self, BufReader},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::lines;

/// Longest wait for the other end's next line, apart from the duration of a run.
pub(super) const GREETING: Duration = Duration::from_secs(5);
/// Longest wait for a peer that should act, in addition to the duration of a run.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Largest length of a line in bytes; the lines have a few short fields.
const LONGEST_LINE: u64 = 4096;
/// Version of the lines that the two ends exchange.
const VERSION: u32 = 1;

/// The first line in both directions.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Greeting {
    bench: String,
    version: u32,
}

/// A connection between the two ends of a measurement. Every line from the peer has a limited
/// length, and every wait for it a limited time.
#[derive(Debug)]
pub(crate) struct Dialogue {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    peer: SocketAddr,
    local: SocketAddr,
}

impl Dialogue {
    /// Greets the end that serves measurements.
    pub(super) fn ask(stream: TcpStream, bench: &str) -> io::Result<Self> {
        let mut dialogue = Self::new(stream)?;
        dialogue.say(&Greeting { bench: bench.to_owned(), version: VERSION })?;
        dialogue.greeted(bench)?;
        Ok(dialogue)
    }

    /// Answers the greeting of the end that starts measurements.
    pub(super) fn answer(stream: TcpStream, bench: &str) -> io::Result<Self> {
        let mut dialogue = Self::new(stream)?;
        // This end greets even a peer of another kind, so that the peer can say what is wrong.
        dialogue.say(&Greeting { bench: bench.to_owned(), version: VERSION })?;
        dialogue.greeted(bench)?;
        Ok(dialogue)
    }

    fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let (peer, local) = (stream.peer_addr()?, stream.local_addr()?);
        Ok(Self { reader: BufReader::new(stream.try_clone()?), writer: stream, peer, local })
    }

    fn greeted(&mut self, bench: &str) -> io::Result<()> {
        let expected = Greeting { bench: bench.to_owned(), version: VERSION };
        let greeting = self.hear::<Greeting>(GREETING)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if greeting == expected {
            return Ok(());
        }
        let why = format!(
            "it serves `{}`, version {}, and not `{bench}`, version {VERSION}",
            greeting.bench.escape_debug(),
            greeting.version
        );
        Err(io::Error::new(io::ErrorKind::InvalidData, why))
    }

    /// Sends a line.
    pub(crate) fn say(&mut self, value: &impl Serialize) -> io::Result<()> {
        lines::write(&mut self.writer, value)
    }

    /// Waits for a line of the peer for at most `patience`; returns `None` if the peer has closed
    /// the connection.
    pub(crate) fn hear<T: DeserializeOwned>(&mut self, patience: Duration) -> io::Result<Option<T>> {
        self.writer.set_read_timeout(Some(patience))?;
        lines::read(&mut self.reader, LONGEST_LINE)
    }

    /// Waits for a line that must come.
    pub(crate) fn must_hear<T: DeserializeOwned>(&mut self, patience: Duration) -> io::Result<T> {
        self.hear(patience)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Returns the peer's address with another port.
    pub(crate) fn peer_at(&self, port: u16) -> SocketAddr {
        let mut peer = self.peer;
        peer.set_port(port);
        peer
    }

    /// Returns the address of this end with a port that the system chooses.
    pub(crate) fn local(&self) -> SocketAddr {
        let mut local = self.local;
        local.set_port(0);
        local
    }
}
