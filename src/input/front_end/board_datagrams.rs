//! [`BoardDatagrams`]: boards that send datagrams to a source.

#[cfg(test)]
mod tests;

use std::{
    fmt,
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr},
    task::Poll,
    time::Duration,
};

use evb_core::{
    fragment::Fragment,
    framing::Losses,
    source::BeforeStart,
    time::{Instant, earlier},
};
use evb_net::{
    clock,
    udp::{self, DatagramSocket, Listening, Run},
};
use tokio::{sync::watch, time::sleep};

use super::board_log::BoardLog;
use crate::{
    input::{datagrams::Datagrams, taker::Taker},
    source::{FrontEnds, PushError, Source},
};

/// Most datagrams that are received before their fragments are pushed.
const BUDGET: usize = 64;

/// Most datagrams that are read at the source's request.
const MOST: usize = 1 << 20;

/// Time between two looks at the kernel's count of dropped datagrams.
const LOOKS: Duration = Duration::from_secs(1);

/// The datagrams that boards send to a source.
///
/// ```no_run
/// use evb::{
///     input::{BoardDatagrams, Datagrams, Extent, FrameLayout, Listening, OnLoss},
///     prelude::*,
///     source::{BeforeStart, FrontEnds},
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let layout = FrameLayout::new(8, Extent::Datagram);
/// let datagrams = Datagrams::new(layout, Bytes::kib(9), OnLoss::Drop)?;
/// let listening = Listening {
///     address: "192.168.10.1:4660".parse()?,
///     group: None,
///     interface: None,
///     from: None,
///     receive_buffer: Bytes::mib(8),
/// };
/// // The usual mistake is to open the socket after the source: what boards send before is lost.
/// let boards = BoardDatagrams::open(&listening, datagrams)?;
/// let front_ends = FrontEnds::new(BeforeStart::Discard, 0);
/// let mut config = SourceConfig::new(SourceId::new(1), "daq0:7000");
/// config.front_ends = Some(front_ends.clone());
/// let source = Source::connect(config).await?;
/// boards.with_front_ends(front_ends).serve(source).await;
/// # Ok(())
/// # }
/// ```
pub struct BoardDatagrams {
    socket: DatagramSocket,
    /// The only host whose datagrams are used.
    host: Option<IpAddr>,
    /// Datagrams of other hosts.
    of_others: u64,
    decoder: Datagrams,
    front_ends: FrontEnds,
    /// Number of starts of the run when datagrams arrived last.
    starts: u64,
    /// Fragments that are ready.
    fragments: Vec<Fragment>,
    /// Lost packets of the fragments that the run has taken.
    lost_packets: u64,
    /// Messages that the kernel has dropped, and the time of the next look at them.
    drops: u64,
    next_look: Instant,
}

/// The end of a wait for datagrams.
enum Waited {
    /// Datagrams came, or a time is over.
    Over,
    /// The source asks for all that has arrived.
    Asked(u64),
}

impl fmt::Debug for BoardDatagrams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoardDatagrams").field("decoder", &self.decoder).finish_non_exhaustive()
    }
}

impl BoardDatagrams {
    /// Opens the socket. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// The operating system's error: the address is in use or does not belong to this host, there
    /// is no such interface, the group is no multicast address, or no file descriptor is left.
    pub fn open(listening: &Listening, decoder: Datagrams) -> io::Result<Self> {
        let socket = udp::listen(listening)?;
        let (granted, wanted) = (socket.buffers().receive, listening.receive_buffer);
        if granted < wanted {
            let (address, bytes) = (listening.address, wanted.count());
            tracing::warn!(
                %address,
                "the receive buffer for the datagrams of boards at {address} has {granted} instead of {wanted}, so bursts of them may be lost; as root, run `sysctl -w net.core.rmem_max={bytes}`, or give evbd CAP_NET_ADMIN, then start it again"
            );
        }
        Ok(Self {
            socket,
            host: None,
            of_others: 0,
            decoder,
            front_ends: FrontEnds::new(BeforeStart::Keep, 0),
            starts: 0,
            fragments: Vec::new(),
            lost_packets: 0,
            drops: 0,
            next_look: clock::now() + LOOKS,
        })
    }

    /// Uses only the datagrams of that host, whatever port they come from.
    #[must_use]
    pub fn of_host(self, host: IpAddr) -> Self {
        Self { host: Some(host), ..self }
    }

    /// Shares the state of the boards with a source: see [`FrontEnds`].
    #[must_use]
    pub fn with_front_ends(self, front_ends: FrontEnds) -> Self {
        Self { front_ends, ..self }
    }

    /// Returns the address at which datagrams arrive.
    ///
    /// # Errors
    /// An error of the operating system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves the boards until the source's run is over.
    pub async fn serve(self, source: Source) {
        let front_ends = self.front_ends.clone();
        tokio::select! {
            _ = self.serve_to(source.clone()) => {}
            _ = source.finished() => {}
        }
        front_ends.end();
    }

    /// Serves the board's datagrams until the source ends.
    async fn serve_to(mut self, taker: impl Taker) -> Result<(), PushError> {
        let mut asked = self.front_ends.requests();
        let mut log = BoardLog::new(taker.source(), self.front_ends.clone());
        self.starts = self.front_ends.starts();
        loop {
            let waited = self.wait(&mut asked).await;
            if let Waited::Asked(_) = waited {
                self.read_out();
            }
            let now = clock::now();
            self.decoder.expire(now, &mut self.fragments);
            self.push(&taker, &mut log).await?;
            if let Waited::Asked(request) = waited {
                self.front_ends.note_read_out(request);
            }
            if now >= self.next_look {
                self.next_look = now + LOOKS;
                self.drops = self.socket.receive_drops().unwrap_or(self.drops);
            }
            log.note(self.losses(), false);
        }
    }

    /// Waits for datagrams, and decodes some.
    ///
    /// Cancel safety: what has arrived is decoded, or stays in the socket.
    async fn wait(&mut self, asked: &mut watch::Receiver<u64>) -> Waited {
        let next_event = earlier(self.decoder.next_timeout(), Some(self.next_look));
        // The longest rest is until the next look at the counts of the socket.
        let rest = next_event.map_or(LOOKS, |next_event| next_event.since(clock::now()));
        let Self { socket, host, of_others, decoder, fragments, front_ends, starts, .. } = self;
        let arrive = poll_fn(|cx| {
            note_start(front_ends, starts, decoder, fragments);
            let (now, mut count) = (clock::now(), 0);
            let received = socket.poll_recv(cx, BUDGET, |from, run| {
                count += run.len();
                decode(from, run, *host, of_others, decoder, now, fragments);
            });
            match received {
                // A socket that is broken stays silent, which the supervisor sees.
                Err(error) if count == 0 => {
                    tracing::error!(%error, "the socket of this source for the datagrams of its boards failed, so this source makes no more fragments: {error}; check the network device of this host, then start this source again");
                    Poll::Pending
                }
                _ if count == 0 => Poll::Pending,
                _ => Poll::Ready(()),
            }
        });
        tokio::select! {
            biased;
            Ok(()) = asked.changed() => Waited::Asked(*asked.borrow_and_update()),
            () = arrive => Waited::Over,
            () = sleep(rest) => Waited::Over,
        }
    }

    /// Decodes all that has arrived.
    fn read_out(&mut self) {
        let now = clock::now();
        let Self { socket, host, of_others, decoder, fragments, .. } = self;
        let each = |from, run: Run<'_>| decode(from, run, *host, of_others, decoder, now, fragments);
        let _ = socket.recv(MOST, each);
    }

    /// Pushes the fragments that are ready.
    async fn push(&mut self, taker: &impl Taker, log: &mut BoardLog) -> Result<(), PushError> {
        note_start(&self.front_ends, &mut self.starts, &mut self.decoder, &mut self.fragments);
        // What a fragment from before the start lacks is no loss of the run.
        if !self.front_ends.is_discarding() {
            let lost = self.fragments.iter().map(|fragment| u64::from(fragment.lost_packets));
            self.lost_packets += lost.sum::<u64>();
        }
        while !self.fragments.is_empty() {
            match taker.take_many(&mut self.fragments).await {
                Ok(()) => {}
                Err(PushError::Refused(refused)) => {
                    self.fragments.remove(0);
                    log.note_refused(&refused);
                }
                Err(ended) => return Err(ended),
            }
        }
        Ok(())
    }

    fn losses(&self) -> Losses {
        let own = self.decoder.losses();
        let unused_packets = own.unused_packets + self.of_others;
        Losses { unused_packets, socket_drops: self.drops, lost_packets: self.lost_packets, ..own }
    }
}

/// Begins with new packets if the run has started. Unless the run keeps what came before, fragments
/// that were ready by then are discarded.
fn note_start(
    front_ends: &FrontEnds,
    starts: &mut u64,
    decoder: &mut Datagrams,
    fragments: &mut Vec<Fragment>,
) {
    let now = front_ends.starts();
    if std::mem::replace(starts, now) == now {
        return;
    }
    let mut discarded = decoder.begin();
    if front_ends.before_start() == BeforeStart::Discard {
        discarded += fragments.drain(..).len() as u64;
    }
    (0..discarded).for_each(|_| front_ends.count_discarded());
}

/// Decodes the datagrams of a sender.
fn decode(
    from: SocketAddr,
    run: Run<'_>,
    host: Option<IpAddr>,
    of_others: &mut u64,
    decoder: &mut Datagrams,
    now: Instant,
    fragments: &mut Vec<Fragment>,
) {
    if host.is_some_and(|host| host != from.ip().to_canonical()) {
        *of_others += run.len() as u64;
        return;
    }
    run.datagrams().for_each(|datagram| decoder.take(datagram, now, fragments));
}
