//! [`BoardStream`]: a board to which a source connects.

#[cfg(test)]
mod tests;

use std::{fmt, fs, io, os::unix::fs::FileTypeExt as _, path::PathBuf, sync::Arc, time::Duration};

use evb_core::{source::BeforeStart, units::Bytes};
use evb_net::{control::set_control_options, resolve::resolve};
use tokio::{
    net::{TcpStream, UnixStream},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    arrivals::{Requests, Stream},
    assembly::Assembly,
    board_writer::{BoardLine, BoardWriter},
    device::Device,
    frames::{Frames, serve_frames},
};
use crate::{
    input::{decode::Decoders, taker::Taker},
    source::{FrontEnds, Source},
};

/// Shortest and longest time between two attempts to connect.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Time until an attempt to connect is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A board to which a source connects: it pushes the frames that the board sends, and connects
/// again when the connection ends.
///
/// Each connection has a decoder of its own, so that no bytes of one connection join those of the
/// next. The source knows from its [`FrontEnds`] whether the board is connected.
///
/// ```no_run
/// use evb::{
///     input::{BoardStream, Extent, FrameLayout, Framing},
///     prelude::*,
///     source::{BeforeStart, FrontEnds},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let framing = Framing::new(FrameLayout::new(8, Extent::Fixed(1024)), Bytes::kib(2))?;
/// let front_ends = FrontEnds::new(BeforeStart::Keep, 1);
/// let mut config = SourceConfig::new(SourceId::new(1), "daq0:7000");
/// config.front_ends = Some(front_ends.clone());
/// let board = BoardStream::tcp("192.168.10.16:24", framing.decoders());
/// let source = Source::connect(config).await?;
/// // The usual mistake: without the source's front ends, a dead board would look healthy.
/// board.with_front_ends(front_ends).serve(source).await;
/// # Ok(())
/// # }
/// ```
pub struct BoardStream {
    place: BoardAddress,
    decoders: Decoders,
    front_ends: FrontEnds,
    writer: BoardWriter,
}

impl fmt::Debug for BoardStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoardStream").field("place", &self.place).finish_non_exhaustive()
    }
}

/// The place where a board is found.
#[derive(Clone, Debug)]
enum BoardAddress {
    /// Host and port.
    Tcp(String),
    /// A Unix socket, a FIFO, a character device or a file.
    Path(PathBuf),
}

impl fmt::Display for BoardAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

impl BoardStream {
    /// Returns the stream of a board that listens at `host:port`.
    pub fn tcp(address: impl Into<String>, decoders: Decoders) -> Self {
        Self::new(BoardAddress::Tcp(address.into()), decoders)
    }

    /// Returns the stream of what is at a path: a Unix socket that listens, a FIFO, a character
    /// device, or a file, which is read once.
    pub fn path(path: impl Into<PathBuf>, decoders: Decoders) -> Self {
        Self::new(BoardAddress::Path(path.into()), decoders)
    }

    fn new(place: BoardAddress, decoders: Decoders) -> Self {
        let front_ends = FrontEnds::new(BeforeStart::Keep, 1);
        Self { place, decoders, front_ends, writer: BoardWriter::default() }
    }

    /// Returns the way to the board on the connection of this stream. The connection stays open,
    /// after the stream has ended, until the result is dropped.
    pub fn writer(&self) -> BoardWriter {
        self.writer.clone()
    }

    /// Shares the state of the connection with a source: see [`FrontEnds`].
    #[must_use]
    pub fn with_front_ends(self, front_ends: FrontEnds) -> Self {
        Self { front_ends, ..self }
    }

    /// Serves the board until the source's run is over.
    pub async fn serve(self, source: Source) {
        tokio::select! {
            () = self.serve_to(source.clone()) => {}
            _ = source.finished() => {}
        }
        self.front_ends.end();
    }

    /// Connects to the board, and serves its frames until the connection ends; then connects again.
    async fn serve_to(&self, taker: impl Taker) {
        let mut asked = self.front_ends.requests();
        let (mut requests, mut connection) = (Requests::new(), JoinSet::new());
        let mut attempts = Attempts::default();
        let largest = Bytes::new((self.decoders)().largest() as u64);
        let assembly = Arc::new(Assembly::new(largest, 1));
        loop {
            tokio::select! {
                (stream, line) = self.connect(&mut attempts, &taker), if connection.is_empty() => {
                    self.writer.open(line);
                    let arrivals = requests.arrivals(stream);
                    let frames =
                        Frames::new(arrivals, (self.decoders)(), assembly.clone(), &self.front_ends, taker.source());
                    let (taker, front_ends) = (taker.clone(), self.front_ends.clone());
                    let place = self.place.clone();
                    let connected = front_ends.connect();
                    connection.spawn(async move {
                        let _connected = connected;
                        serve_frames(frames, place, &taker, &front_ends).await
                    });
                }
                Some(ended) = connection.join_next(), if !connection.is_empty() => {
                    self.writer.close();
                    attempts.note_end(ended.unwrap_or(0));
                }
                Ok(()) = asked.changed() => {
                    let request = *asked.borrow_and_update();
                    requests.read_out().await;
                    self.front_ends.note_read_out(request);
                }
            }
        }
    }

    /// Connects, as often as it takes.
    ///
    /// Cancel safety: the next call goes on where this one was.
    async fn connect(&self, attempts: &mut Attempts, taker: &impl Taker) -> (Stream, BoardLine) {
        loop {
            sleep(attempts.wait).await;
            match self.try_connect(attempts).await {
                Ok(stream) => {
                    attempts.last_error = None;
                    return stream;
                }
                Err(error) => attempts.note_error(&error, &self.place, taker),
            }
        }
    }

    /// Tries once to open the address of the board: a TCP connection, a Unix socket, a device or a
    /// file.
    async fn try_connect(&self, attempts: &mut Attempts) -> io::Result<(Stream, BoardLine)> {
        match &self.place {
            BoardAddress::Tcp(address) => {
                let addresses = resolve(address).await.map_err(io::Error::other)?;
                let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(&addresses[..])).await??;
                set_control_options(&stream)?;
                let (read, write) = stream.into_split();
                Ok((Stream::Tcp(read), BoardLine::Tcp(write)))
            }
            BoardAddress::Path(path) => {
                let kind = fs::metadata(path)?.file_type();
                if kind.is_socket() {
                    let (read, write) = UnixStream::connect(path).await?.into_split();
                    return Ok((Stream::Unix(read), BoardLine::Unix(write)));
                }
                if kind.is_file() && attempts.has_ended {
                    // The file has been read to its end.
                    std::future::pending::<()>().await;
                }
                Ok((Stream::Device(Device::open(path).await?), BoardLine::Device(path.clone())))
            }
        }
    }
}

/// The attempts to connect to a board.
#[derive(Debug, Default)]
struct Attempts {
    /// Time before the next attempt.
    wait: Duration,
    /// Error of the last attempt, if it failed.
    last_error: Option<io::ErrorKind>,
    /// True if a connection has ended.
    has_ended: bool,
}

impl Attempts {
    /// Notes that a connection has ended, and how many frames it carried.
    fn note_end(&mut self, frames: u64) {
        self.has_ended = true;
        if frames > 0 {
            self.wait = Duration::ZERO;
        }
        self.lengthen();
    }

    fn lengthen(&mut self) {
        let (shortest, longest) = BACK_OFF;
        self.wait = (self.wait * 2).clamp(shortest, longest);
    }

    /// Notes that an attempt has failed; the log names each reason once.
    fn note_error(&mut self, error: &io::Error, place: &BoardAddress, taker: &impl Taker) {
        self.lengthen();
        if self.last_error.replace(error.kind()) == Some(error.kind()) {
            return;
        }
        let cure = match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                "is another client connected? Most boards serve one at a time: close it, or check the port"
            }
            io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                "check its power, its cable, its address, and the interface of this host"
            }
            io::ErrorKind::NotFound => {
                "start the program that makes this socket or FIFO, or correct `path` of this source's input"
            }
            io::ErrorKind::PermissionDenied => "let the user that runs evbd read it",
            _ => {
                "check that the board is switched on, and that its name or path is right in the configuration"
            }
        };
        let source = taker.source().number();
        tracing::warn!(source, board = %place, %error, "this source cannot connect to the board {place}, and tries again: {error}; {cure}");
    }
}
