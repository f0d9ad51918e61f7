//! Front-end processes that send fragments to a source over TCP or a Unix socket;
//! `docs/reference/front-end.md` specifies the format.

mod arrivals;
#[cfg(test)]
mod tests;

use std::{
    fmt, fs, io,
    net::SocketAddr,
    os::{fd::AsFd as _, unix::fs::FileTypeExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use evb_core::{
    fragment::{Fragment, Timestamp},
    id::EventId,
    source::MAX_FRONT_ENDS,
    units::Bytes,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt, BufReader},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    task::JoinSet,
    time::timeout,
};

use super::taker::Taker;
use crate::source::{BeforeStart, FrontEnds, PushError, Source};
use arrivals::{Requests, Stream, is_readable};

/// Length of a fragment's header: length, event id, timestamp.
const HEAD: usize = 20;
/// Number of bytes that one read asks of the operating system.
const READ: usize = 64 * 1024;
/// Pause after the operating system refused to accept a connection, for example for lack of file
/// descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Reason for which a front-end's connection was closed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FrontEndError {
    #[error(
        "the front end announced a fragment of {length} B, more than max_fragment ({limit}): it is not a front end, or its stream is out of step"
    )]
    Length { length: u32, limit: Bytes },
    #[error("the connection ended inside a fragment")]
    CutShort,
    #[error(transparent)]
    Push(#[from] PushError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Listens for front-end processes and pushes the fragments that they send to a source.
///
/// Every connection carries fragments, each preceded by its length. The listener sends no answers.
/// While the source's backlog is full, the listener reads nothing, so the front end's writes wait.
/// A length above `max_fragment`, event id 0 or a cut-off fragment closes the connection, and the
/// log says why; other connections go on.
///
/// ```
/// use evb::{input::FrontEndListener, prelude::*};
/// use tokio::{io::AsyncWriteExt as _, net::TcpStream};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let run = LocalSystem::new(1, 1).events(1).start(|_| NullSink).await?;
/// let listener = FrontEndListener::tcp(&["127.0.0.1:0".parse()?], Bytes::mib(1)).await?;
/// let address = listener.address().ok_or("not a TCP port")?;
/// tokio::spawn(listener.serve(run.sources()[0].clone()));
///
/// // The front end, in any language: length, event id, timestamp, payload.
/// let mut front_end = TcpStream::connect(address).await?;
/// front_end.write_all(&4_u32.to_le_bytes()).await?;
/// front_end.write_all(&1_u64.to_le_bytes()).await?;
/// front_end.write_all(&0_u64.to_le_bytes()).await?;
/// front_end.write_all(b"data").await?;
/// assert_eq!(run.finished().await?.events.complete, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FrontEndListener {
    listener: Listener,
    max_fragment: Bytes,
    front_ends: FrontEnds,
}

#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix { listener: UnixListener, _file: SocketFile },
}

/// The file of a Unix socket, which is removed when this value is dropped.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

impl FrontEndListener {
    /// Listens on TCP at the first of the given addresses that is available.
    ///
    /// # Errors
    /// The operating system's error: the address is not local, or it is taken.
    pub async fn tcp(addresses: &[SocketAddr], max_fragment: Bytes) -> io::Result<Self> {
        Ok(Self::new(Listener::Tcp(TcpListener::bind(addresses).await?), max_fragment))
    }

    /// Listens at a Unix socket, in a directory that is created if necessary. A socket that a dead
    /// process left at that path is replaced; the socket's file is removed when the listener is
    /// dropped.
    ///
    /// # Errors
    /// The operating system's error: another process listens at this path, or the path is another
    /// kind of file.
    pub fn unix(path: impl Into<PathBuf>, max_fragment: Bytes) -> io::Result<Self> {
        let path = path.into();
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            fs::create_dir_all(directory)?;
        }
        if is_dead_socket(&path) {
            fs::remove_file(&path)?;
        }
        let listener = UnixListener::bind(&path)?;
        Ok(Self::new(Listener::Unix { listener, _file: SocketFile(path) }, max_fragment))
    }

    fn new(listener: Listener, max_fragment: Bytes) -> Self {
        Self { listener, max_fragment, front_ends: FrontEnds::new(BeforeStart::Keep, 0) }
    }

    /// Shares the state of these front ends with a source: see [`FrontEnds`].
    #[must_use]
    pub fn with_front_ends(self, front_ends: FrontEnds) -> Self {
        Self { front_ends, ..self }
    }

    /// Returns the TCP address at which this listener accepts connections; `None` for a Unix
    /// socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.listener {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix { .. } => None,
        }
    }

    /// Serves front-ends until the source's run is over.
    pub async fn serve(self, source: Source) {
        tokio::select! {
            () = self.serve_to(source.clone()) => {}
            _ = source.finished() => {}
        }
    }

    async fn serve_to(self, taker: impl Taker) {
        let mut connections = Connections { set: JoinSet::new(), requests: Requests::new() };
        let mut asked = self.front_ends.requests();
        loop {
            tokio::select! {
                accepted = self.accept() => self.admit(accepted, &mut connections, &taker).await,
                Ok(()) = asked.changed() => {
                    let request = *asked.borrow_and_update();
                    self.read_out(&mut connections, &taker).await;
                    self.front_ends.note_read_out(request);
                }
            }
        }
    }

    async fn accept(&self) -> io::Result<(Stream, FrontEnd)> {
        match &self.listener {
            Listener::Tcp(listener) => listener.accept().await.map(of_tcp),
            Listener::Unix { listener, .. } => listener.accept().await.map(of_unix),
        }
    }

    async fn admit(
        &self,
        accepted: io::Result<(Stream, FrontEnd)>,
        connections: &mut Connections,
        taker: &impl Taker,
    ) {
        while connections.set.try_join_next().is_some() {}
        match accepted {
            Ok((_, peer)) if connections.set.len() >= MAX_FRONT_ENDS as usize => {
                let source = taker.source().number();
                tracing::warn!(source, %peer, "refused a front end: {MAX_FRONT_ENDS} are connected already");
            }
            Ok((stream, peer)) => {
                let arrivals = connections.requests.arrivals(stream);
                let (taker, limit, front_ends) = (taker.clone(), self.max_fragment, self.front_ends.clone());
                let connected = self.front_ends.connect();
                connections.set.spawn(async move {
                    let _connected = connected;
                    connection(arrivals, peer, limit, &taker, &front_ends).await;
                });
            }
            Err(error) => {
                let source = taker.source().number();
                tracing::warn!(source, %error, "cannot accept the connection of a front end");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Pushes all that has arrived, also on connections that wait to be accepted. A fragment of
    /// which only a part has arrived is not waited for.
    async fn read_out(&self, connections: &mut Connections, taker: &impl Taker) {
        for _ in 0..MAX_FRONT_ENDS {
            let waits = match &self.listener {
                Listener::Tcp(listener) => is_readable(listener.as_fd()),
                Listener::Unix { listener, .. } => is_readable(listener.as_fd()),
            };
            if !waits {
                break;
            }
            // The runtime learns of the connection soon, unless the connection is gone again.
            let Ok(Ok(accepted)) = timeout(PAUSE, self.accept()).await else { break };
            self.admit(Ok(accepted), connections, taker).await;
        }
        connections.requests.read_out().await;
    }
}

/// The connections of a listener.
struct Connections {
    set: JoinSet<()>,
    requests: Requests,
}

/// Returns true if the path is a socket on which no process listens.
fn is_dead_socket(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && std::os::unix::net::UnixStream::connect(path).is_err_and(refused)
}

fn of_tcp((stream, peer): (TcpStream, SocketAddr)) -> (Stream, FrontEnd) {
    (Stream::Tcp(stream), FrontEnd::Address(peer))
}

fn of_unix((stream, _): (UnixStream, tokio::net::unix::SocketAddr)) -> (Stream, FrontEnd) {
    let process = stream.peer_cred().ok().and_then(|peer| peer.pid());
    (Stream::Unix(stream), FrontEnd::Process(process))
}

/// Name of a connected front end in the log: its address or its process.
#[derive(Clone, Copy, Debug)]
enum FrontEnd {
    Address(SocketAddr),
    Process(Option<i32>),
}

impl fmt::Display for FrontEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Process(Some(process)) => write!(f, "process {process}"),
            Self::Process(None) => f.write_str("a local process"),
        }
    }
}

async fn connection(
    arrivals: impl AsyncRead + Unpin + Send,
    peer: FrontEnd,
    limit: Bytes,
    taker: &impl Taker,
    front_ends: &FrontEnds,
) {
    let source = taker.source().number();
    tracing::info!(source, %peer, "a front end has connected");
    match receive(arrivals, limit, taker, front_ends).await {
        Ok(fragments) => tracing::info!(source, %peer, fragments, "a front end has closed its connection"),
        Err(FrontEndError::Push(PushError::Ended)) => {}
        Err(reason) => tracing::warn!(source, %peer, %reason, "closed the connection of a front end"),
    }
}

/// Passes all fragments of a stream on to `taker`, and returns their number.
pub(super) async fn receive(
    stream: impl AsyncRead + Unpin + Send,
    limit: Bytes,
    taker: &impl Taker,
    front_ends: &FrontEnds,
) -> Result<u64, FrontEndError> {
    let mut stream = BufReader::with_capacity(READ, stream);
    let mut count = 0;
    let mut head = BytesMut::with_capacity(HEAD);
    while !stream.fill_buf().await?.is_empty() {
        let starts = front_ends.starts();
        read(&mut stream, &mut head, HEAD).await?;
        let length = head.get_u32_le();
        let event = EventId::new(head.get_u64_le());
        let timestamp = Timestamp::new(head.get_u64_le());
        if u64::from(length) > limit.count() {
            return Err(FrontEndError::Length { length, limit });
        }
        let mut payload = BytesMut::with_capacity(length as usize);
        read(&mut stream, &mut payload, length as usize).await?;
        if front_ends.starts() == starts {
            match taker.take(Fragment::new(event, timestamp, payload)).await {
                // The ids of an earlier run may be far from those of the next one.
                Err(PushError::Refused(_)) if front_ends.is_discarding() => front_ends.count_discarded(),
                taken => taken?,
            }
        } else {
            front_ends.count_discarded();
        }
        count += 1;
    }
    Ok(count)
}

/// Reads exactly `length` bytes into `into`.
async fn read(
    stream: &mut (impl AsyncRead + Unpin + Send),
    into: &mut BytesMut,
    length: usize,
) -> Result<(), FrontEndError> {
    into.clear();
    into.reserve(length);
    while into.len() < length {
        let missing = (length - into.len()) as u64;
        if (&mut *stream).take(missing).read_buf(into).await? == 0 {
            return Err(FrontEndError::CutShort);
        }
    }
    Ok(())
}
