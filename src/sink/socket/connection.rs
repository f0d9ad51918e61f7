//! One connection to a consumer: what was sent, and what was acknowledged.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt, io,
    time::Duration,
};

use bytes::Bytes;
use evb_core::{id::EventId, quantities::time};
use evb_file::StreamEncoder;
use evb_net::resolve::{ResolveError, resolve};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf, split},
    net::{TcpStream, UnixStream},
    time::{sleep, timeout_at},
};

use super::ConsumerAddress;

/// Number of bytes that are gathered before they are sent, unless a batch ends.
const GATHERED: usize = 64 * 1024;

/// Number of the latest acknowledged events whose acknowledgements may be repeated.
pub(super) const REPEATABLE: usize = 4096;

/// Number of bytes of an acknowledgement.
const NUMBER: usize = 8;

/// A socket of either kind.
pub(super) trait Socket: AsyncRead + AsyncWrite + Send + Unpin + fmt::Debug {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin + fmt::Debug> Socket for S {}

/// The reason why a consumer does not take events, as the rest of a sentence that begins with its
/// address.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConsumerError {
    #[error("refuses the connection; start it")]
    Refused,
    #[error("cannot be reached: {0}; check `address` of the sink, and the network")]
    Unreachable(io::Error),
    #[error("has no address: {0}")]
    Unknown(#[from] ResolveError),
    #[error("closed the connection; start it again if it has ended, and look at its log")]
    Closed,
    #[error("is cut off: {0}; start it again if it has ended, and look at its log")]
    Lost(#[from] io::Error),
    #[error("has taken and acknowledged nothing for {}; look whether it hangs, and restart it", time(*.0))]
    Silent(Duration),
    #[error(
        "answers {number:#x}, which is not the number of an event that waits for an answer; correct it: it must answer with the number of each event in 8 bytes, little endian"
    )]
    Foreign { number: u64 },
}

#[derive(Debug)]
pub(super) struct ConsumerConnection {
    reader: ReadHalf<Box<dyn Socket>>,
    writer: WriteHalf<Box<dyn Socket>>,
    /// Time without progress after which the consumer counts as silent.
    timeout: Duration,
    /// Bytes that are to be sent, and the number of those that were.
    out: Vec<u8>,
    sent: usize,
    /// Number of bytes of the stream so far.
    offset: u64,
    /// Events that wait for their acknowledgement; at most as many as the builder has slots.
    owed: BTreeSet<EventId>,
    /// Events that were acknowledged last, the latest last.
    acknowledged: VecDeque<EventId>,
    /// The part of an acknowledgement that has come.
    part: Vec<u8>,
}

impl ConsumerConnection {
    /// Connects to a consumer, whose stream begins with a header.
    pub(super) async fn open(
        address: &ConsumerAddress,
        timeout: Duration,
        header: Bytes,
    ) -> Result<Self, ConsumerError> {
        let connected = tokio::time::timeout(timeout, connect(address)).await;
        let socket = connected.map_err(|_| ConsumerError::Unreachable(io::ErrorKind::TimedOut.into()))??;
        Ok(Self::on(socket, timeout, header))
    }

    /// Begins the stream on a socket that is connected.
    pub(super) fn on(socket: Box<dyn Socket>, timeout: Duration, header: Bytes) -> Self {
        let (reader, writer) = split(socket);
        let (sent, offset, owed) = (0, header.len() as u64, BTreeSet::new());
        let (acknowledged, part) = (VecDeque::new(), Vec::new());
        Self { reader, writer, timeout, out: header.into(), sent, offset, owed, acknowledged, part }
    }

    /// Sends the record of an event, which may wait for further ones until [`Self::settle`].
    pub(super) async fn send(&mut self, event: EventId, record: &[u8]) -> Result<(), ConsumerError> {
        self.owed.insert(event);
        self.out.extend_from_slice(record);
        self.offset += record.len() as u64;
        if self.out.len() < GATHERED {
            return Ok(());
        }
        self.exchange(|connection| connection.out.is_empty()).await
    }

    /// Waits until the consumer has acknowledged every event.
    pub(super) async fn settle(&mut self) -> Result<(), ConsumerError> {
        self.exchange(|connection| connection.out.is_empty() && connection.owed.is_empty()).await
    }

    /// Returns true if the consumer has closed the connection. What it repeats is read and dropped.
    pub(super) async fn has_ended(&mut self) -> bool {
        let read = tokio::time::timeout(Duration::from_millis(1), self.reader.read(&mut [0; 512])).await;
        matches!(read, Ok(Ok(0) | Err(_)))
    }

    /// Returns the events that the consumer has not acknowledged.
    pub(super) fn into_owed(self) -> Vec<EventId> {
        self.owed.into_iter().collect()
    }

    /// Ends the stream as a closed file ends, and waits for the consumer to close the connection,
    /// but not longer than `wait`.
    pub(super) async fn close(
        mut self,
        encoder: &StreamEncoder,
        wait: Duration,
    ) -> Result<(), ConsumerError> {
        self.out.extend_from_slice(&encoder.closing_block(self.offset));
        let until = tokio::time::Instant::now() + wait;
        let sent = self.exchange(|connection| connection.out.is_empty());
        timeout_at(until, sent).await.map_err(|_| ConsumerError::Silent(wait))??;
        self.writer.shutdown().await?;
        // A socket that is closed before its input is read may take back what it has sent. A
        // consumer that has the end may close the connection in any way.
        let ended = async { while matches!(self.reader.read(&mut [0; 512]).await, Ok(1..)) {} };
        let _ = timeout_at(until, ended).await;
        Ok(())
    }

    /// Sends what waits and takes acknowledgements until that is enough.
    async fn exchange(&mut self, is_enough: impl Fn(&Self) -> bool) -> Result<(), ConsumerError> {
        let mut numbers = [0; 4096];
        while !is_enough(self) {
            tokio::select! {
                sent = self.writer.write(&self.out[self.sent..]), if self.sent < self.out.len() => {
                    self.sent += sent?;
                    if self.sent == self.out.len() {
                        self.out.clear();
                        self.sent = 0;
                    }
                }
                count = self.reader.read(&mut numbers) => match count? {
                    0 => return Err(ConsumerError::Closed),
                    count => self.take(&numbers[..count])?,
                },
                () = sleep(self.timeout) => return Err(ConsumerError::Silent(self.timeout)),
            }
        }
        Ok(())
    }

    /// Takes bytes of acknowledgements.
    fn take(&mut self, bytes: &[u8]) -> Result<(), ConsumerError> {
        for byte in bytes {
            self.part.push(*byte);
            let Ok(number) = <[u8; NUMBER]>::try_from(self.part.as_slice()) else { continue };
            self.part.clear();
            let number = u64::from_le_bytes(number);
            let event = EventId::new(number);
            if self.owed.remove(&event) {
                self.acknowledged.push_back(event);
                if self.acknowledged.len() > REPEATABLE {
                    self.acknowledged.pop_front();
                }
            } else if !self.acknowledged.contains(&event) {
                return Err(ConsumerError::Foreign { number });
            }
        }
        Ok(())
    }
}

/// Connects to the consumer of the events.
async fn connect(address: &ConsumerAddress) -> Result<Box<dyn Socket>, ConsumerError> {
    let refused = |error: io::Error| match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => ConsumerError::Refused,
        _ => ConsumerError::Unreachable(error),
    };
    match address {
        ConsumerAddress::Unix(path) => Ok(Box::new(UnixStream::connect(path).await.map_err(refused)?)),
        ConsumerAddress::Tcp(address) => {
            let addresses = resolve(address).await?;
            let socket = TcpStream::connect(addresses.as_slice()).await.map_err(refused)?;
            socket.set_nodelay(true)?;
            Ok(Box::new(socket))
        }
    }
}
