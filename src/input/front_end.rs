//! Front-end processes that send fragments to a source over TCP or a Unix socket;
//! `docs/reference/front-end.md` specifies the format.

mod answers;
mod device;
mod arrivals;
mod assembly;
mod fragments;
mod board_log;
mod frames;
mod board_writer;
mod board;
#[cfg(feature = "udp")]
mod board_datagrams;
#[cfg(test)]
mod tests;

use std::{
    fmt, fs, io,
    net::SocketAddr,
    os::{fd::AsFd as _, unix::fs::FileTypeExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

pub use evb_core::source::front_end_memory;
use evb_core::{quantities::counted, source::MAX_FRONT_ENDS, units::Bytes};
use tokio::{
    io::AsyncRead,
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    task::JoinSet,
    time::timeout,
};

use super::{decode::Decoders, taker::Taker};
use crate::source::{BeforeStart, FrontEnds, PushError, Source};
use answers::Answers;
use arrivals::{Requests, Stream, is_readable};
use assembly::Assembly;
pub use board::BoardStream;
#[cfg(feature = "udp")]
pub use board_datagrams::BoardDatagrams;
pub use board_writer::BoardWriter;
use fragments::{Fragments, FrontEndError};
#[cfg(any(test, feature = "fuzzing"))]
pub(super) use frames::receive_frames;
use frames::{Frames, serve_frames};

/// Pause after the operating system refused to accept a connection, for example for lack of file
/// descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Listens for front-end processes and pushes the fragments that they send to a source.
///
/// Every connection carries fragments, each preceded by its length. A front end that begins with
/// the preamble of protocol 2 is told when the run begins and stops, if the source shares its
/// [`FrontEnds`] with this listener. While the source's backlog is full, the listener reads
/// nothing, so the front end's writes wait. A length above `max_fragment`, event id 0 or a cut-off
/// fragment closes the connection, and the log says why; other connections go on.
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
pub struct FrontEndListener {
    listener: Listener,
    max_fragment: Bytes,
    front_ends: FrontEnds,
    /// Decoders of the frames of boards; `None` if front ends speak evb's own protocol.
    decoders: Option<Decoders>,
}

impl fmt::Debug for FrontEndListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontEndListener").field("listener", &self.listener).finish_non_exhaustive()
    }
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
        Self { listener, max_fragment, front_ends: FrontEnds::new(BeforeStart::Keep, 0), decoders: None }
    }

    /// Shares the state of these front ends with a source: see [`FrontEnds`].
    #[must_use]
    pub fn with_front_ends(self, front_ends: FrontEnds) -> Self {
        Self { front_ends, ..self }
    }

    /// Takes connections of boards with frames of their own, instead of front ends with evb's
    /// protocol.
    #[must_use]
    pub fn with_decoders(self, decoders: Decoders) -> Self {
        Self { decoders: Some(decoders), ..self }
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
        let mut connections = Connections::new(&self);
        tokio::select! {
            () = self.serve_to(source.clone(), &mut connections) => {}
            _ = source.finished() => {}
        }
        // Each connection ends once its front end is told how many fragments were accepted; a front
        // end that does not read delays nothing for long.
        self.front_ends.end();
        let _ = timeout(PAUSE, async { while connections.set.join_next().await.is_some() {} }).await;
    }

    /// Accepts front ends, and reads them out when the source asks for that.
    async fn serve_to(&self, taker: impl Taker, connections: &mut Connections) {
        let mut asked = self.front_ends.requests();
        loop {
            tokio::select! {
                accepted = self.accept() => self.admit(accepted, connections, &taker).await,
                Ok(()) = asked.changed() => {
                    let request = *asked.borrow_and_update();
                    self.read_out(connections, &taker).await;
                    self.front_ends.note_read_out(request);
                }
            }
        }
    }

    async fn accept(&self) -> io::Result<(Stream, Answers, FrontEnd)> {
        match &self.listener {
            Listener::Tcp(listener) => listener.accept().await.map(of_tcp),
            Listener::Unix { listener, .. } => listener.accept().await.map(of_unix),
        }
    }

    /// Serves a front end that has connected, unless too many are connected.
    async fn admit(
        &self,
        accepted: io::Result<(Stream, Answers, FrontEnd)>,
        connections: &mut Connections,
        taker: &impl Taker,
    ) {
        while connections.set.try_join_next().is_some() {}
        match accepted {
            Ok((_, _, peer)) if connections.set.len() >= MAX_FRONT_ENDS as usize => {
                let source = taker.source().number();
                tracing::warn!(source, %peer, "this source refused the front end {peer}, because {MAX_FRONT_ENDS} front ends are connected already, and gets no fragments from it: close another one, then let it connect again");
            }
            Ok((stream, answers, peer)) => {
                let arrivals = connections.requests.arrivals(stream);
                let (taker, front_ends) = (taker.clone(), self.front_ends.clone());
                let assembly = connections.assembly.clone();
                let connected = self.front_ends.connect();
                if let Some(decoders) = &self.decoders {
                    let source = taker.source();
                    let frames = Frames::new(arrivals, decoders(), assembly, &front_ends, source);
                    connections.set.spawn(async move {
                        // The board would take the end of the answers for that of the connection.
                        let _open = (connected, answers);
                        serve_frames(frames, peer, &taker, &front_ends).await;
                    });
                    return;
                }
                let fragments = Fragments::new(arrivals, self.max_fragment, assembly, &front_ends);
                connections.set.spawn(async move {
                    let _connected = connected;
                    connection(fragments, answers, peer, &taker, &front_ends).await;
                });
            }
            Err(error) => {
                let source = taker.source().number();
                tracing::warn!(source, %error, "this source cannot accept the connection of a front end, and tries again: {error}; if too many files are open, raise `ulimit -n`, else look at `dmesg`");
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
    assembly: Arc<Assembly>,
}

impl Connections {
    fn new(listener: &FrontEndListener) -> Self {
        let assembly = Assembly::new(listener.max_fragment, listener.front_ends.expected());
        Self { set: JoinSet::new(), requests: Requests::new(), assembly: Arc::new(assembly) }
    }
}

/// Returns true if the path is a socket on which no process listens.
fn is_dead_socket(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    is_socket && std::os::unix::net::UnixStream::connect(path).is_err_and(refused)
}

fn of_tcp((stream, peer): (TcpStream, SocketAddr)) -> (Stream, Answers, FrontEnd) {
    let (read, write) = stream.into_split();
    (Stream::Tcp(read), Answers::new(write), FrontEnd::Address(peer))
}

fn of_unix((stream, _): (UnixStream, tokio::net::unix::SocketAddr)) -> (Stream, Answers, FrontEnd) {
    let process = stream.peer_cred().ok().and_then(|peer| peer.pid());
    let (read, write) = stream.into_split();
    (Stream::Unix(read), Answers::new(write), FrontEnd::Process(process))
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

/// Serves a connection until its end, or until the source's part in the run is over.
async fn connection(
    mut fragments: Fragments<impl AsyncRead + Unpin + Send>,
    mut answers: Answers,
    peer: FrontEnd,
    taker: &impl Taker,
    front_ends: &FrontEnds,
) {
    let source = taker.source().number();
    let mut run = front_ends.run();
    let accepted = fragments.accepted();
    tracing::info!(source, %peer, "the front end {peer} has connected to this source, which now takes its fragments");
    let serve = async {
        fragments.open().await?;
        let Some(name) = fragments.name() else { return fragments.pass_on(taker).await };
        tracing::info!(source, %peer, name, "the front end {peer} of this source says that it is {name}, and speaks version 2 of the front-end protocol, as it should");
        let counts = fragments.wants_counts().then_some(&*accepted);
        tokio::select! {
            received = fragments.pass_on(taker) => received,
            () = answers.tell(front_ends.run(), counts) => Ok(()),
        }
    };
    let ended = tokio::select! {
        ended = serve => ended,
        _ = run.wait_for(|run| run.is_over) => Err(PushError::Ended.into()),
    };
    let count = fragments.count();
    match ended {
        Ok(()) => {
            tracing::info!(source, %peer, "the front end {peer} has closed its connection to this source, after {}, which all arrived; nothing needs to be done, unless it should send more: then start it again", counted(count, "fragment"))
        }
        Err(FrontEndError::Push(PushError::Ended)) => {}
        Err(reason) => {
            if matches!(
                reason,
                FrontEndError::CutShort
                    | FrontEndError::Stopped(_)
                    | FrontEndError::Length { .. }
                    | FrontEndError::Push(_)
            ) {
                front_ends.count_malformed();
            }
            tracing::warn!(source, %peer, %reason, "closed the connection of the front end {peer} to this source, which takes no more fragments from it, and the run goes on: {reason}; then let it connect again");
        }
    }
    if fragments.name().is_some() {
        let last = *run.borrow();
        // A front end that does not read is not waited for. If bytes of the front end stayed
        // unread, the kernel would discard what the front end has not read yet.
        let finish = async { answers.finish(&last, &accepted).await.and(fragments.discard().await) };
        let _ = timeout(PAUSE / 2, finish).await;
    }
}

/// Passes all fragments of a stream on to `taker`, and returns their number.
#[cfg(any(test, feature = "fuzzing"))]
pub(super) async fn receive(
    stream: impl AsyncRead + Unpin + Send,
    limit: Bytes,
    taker: &impl Taker,
    front_ends: &FrontEnds,
) -> Result<u64, FrontEndError> {
    let assembly = Arc::new(Assembly::new(limit, front_ends.expected()));
    let mut fragments = Fragments::new(stream, limit, assembly, front_ends);
    fragments.open().await?;
    fragments.pass_on(taker).await?;
    Ok(fragments.count())
}
